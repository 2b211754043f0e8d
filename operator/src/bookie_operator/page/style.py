"""How the page looks: light and dark, wide and narrow. One string, since the page is one file."""

from typing import Final

STYLE: Final = """
:root{--ink:#1d2329;--dim:#5c6670;--paper:#fff;--panel:#f6f8fa;--line:#d9dee3;
--good:#176b35;--bad:#a3201d;--unsure:#8a5a00;--busy:#1f5f99}
@media(prefers-color-scheme:dark){:root{--ink:#dfe4e8;--dim:#9aa4ad;--paper:#15181b;
--panel:#1c2125;--line:#353c43;--good:#6fce8f;--bad:#ff8a80;--unsure:#ffcc66;--busy:#7cb7ec}}
*{box-sizing:border-box}
body{font:15px/1.5 system-ui,sans-serif;max-width:76em;margin:0 auto;padding:1em;
color:var(--ink);background:var(--paper)}
h1{font-size:1.3em;margin:1em 0 .2em}h2{font-size:1.05em;margin:1.6em 0 .4em}
a{color:var(--busy)}:focus-visible{outline:2px solid var(--busy);outline-offset:2px}
.good{color:var(--good)}.bad{color:var(--bad)}.unsure{color:var(--unsure)}.busy{color:var(--busy)}
.dim{color:var(--dim)}.b{font-weight:600}
ul{list-style:none;margin:0;padding:0}li{padding:.15em 0;overflow-wrap:anywhere}
.wide{overflow-x:auto}table{border-collapse:collapse;width:100%}
td,th{padding:.35em .9em .35em 0;border-bottom:1px solid var(--line);text-align:left;
vertical-align:top}th{color:var(--dim);font-weight:600;white-space:nowrap}
td:first-child,summary{white-space:nowrap}td ul{color:var(--dim);font-size:.92em}
progress{width:9em;accent-color:var(--busy);vertical-align:middle}
#state{position:sticky;top:0;background:var(--panel);border:1px solid var(--line);
border-radius:.4em;padding:.35em .8em;margin:0;display:flex;gap:1em;flex-wrap:wrap;
justify-content:space-between}
#state.late{border-color:var(--bad);color:var(--bad)}
figure{margin:.4em 0}figcaption{color:var(--dim);font-size:.92em}
svg{display:block;width:100%;min-width:46em;height:auto}
svg text{fill:var(--ink);font:13px system-ui,sans-serif}svg text.when{fill:var(--dim)}
svg line{stroke:var(--line)}svg rect{fill:var(--good)}svg rect.open{fill:var(--unsure)}
svg rect.superseded{fill:var(--dim)}
@media(max-width:44em){thead{display:none}tr{display:block;padding:.5em 0;
border-bottom:1px solid var(--line)}td{display:flex;gap:.8em;border:0;padding:.1em 0}
td:empty{display:none}td::before{content:attr(data-of);color:var(--dim);flex:0 0 8em}}
"""
