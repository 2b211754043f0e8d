"""How the page looks: light and dark, wide and narrow, in colours that colour-blind people keep
apart. One string, since the page is one file.
"""

from typing import Final

STYLE: Final = """
:root{--ink:#1d2329;--dim:#5c6670;--paper:#fff;--line:#d9dee3;--track:#e8ecf0;
--held:#2f6fab;--missing:#c8401b;--corrupt:#8e3b8a;--unknown:#8a8f94;--unknown2:#c9cdd1;
--good:#176b35;--bad:#a3201d;--unsure:#8a5a00}
@media(prefers-color-scheme:dark){:root{--ink:#dfe4e8;--dim:#9aa4ad;--paper:#15181b;--line:#353c43;
--track:#262c32;--held:#5b9bd5;--missing:#ff7d5c;--corrupt:#d58bd1;--unknown:#a9afb5;
--unknown2:#565d64;--good:#6fce8f;--bad:#ff8a80;--unsure:#ffcc66}}
*{box-sizing:border-box}
body{font:15px/1.5 system-ui,sans-serif;max-width:72em;margin:1.5em auto;padding:0 1em;
color:var(--ink);background:var(--paper)}
h1{font-size:1.4em;margin-bottom:0}h2{font-size:1.1em;margin:2em 0 .5em}
small,.facts{color:var(--dim)}time{white-space:nowrap}td{overflow-wrap:anywhere}
.facts{margin:.2em 0 1em;overflow-wrap:anywhere}
.verdict{font-weight:600;font-size:1.1em;padding:.6em .8em;border-left:.4em solid;margin:0}
.good{color:var(--good)}.bad{color:var(--bad)}.unsure{color:var(--unsure)}
.wide{overflow-x:auto}table{border-collapse:collapse;min-width:min(100%,24em)}
td,th{padding:.3em .8em .3em 0;border-bottom:1px solid var(--line);text-align:left;
vertical-align:top}th{color:var(--dim);font-weight:600}
td.n{text-align:right;font-variant-numeric:tabular-nums}
tr.zero td{color:var(--dim)}tr.hit td{font-weight:600}tr.hit td:last-child{font-weight:400}
.chip{border:1px solid;border-radius:.3em;padding:0 .35em;font-size:.85em;white-space:nowrap;
color:var(--dim)}
.chip.missing,.chip.no_copy,.chip.below_ack_quorum,.chip.lost,.chip.gone{color:var(--missing)}
.chip.corrupt{color:var(--corrupt)}.chip.unknown{color:var(--unknown)}
figure.copies{margin:0}figcaption{display:flex;flex-wrap:wrap;gap:.2em 1.2em;color:var(--dim);
font-size:.9em;margin-bottom:.6em}
.key{display:inline-block;width:.8em;height:.8em;margin-right:.35em;background:var(--held)}
.key.missing{background:var(--missing)}.key.corrupt{background:var(--corrupt)}
.key.unknown{background:repeating-linear-gradient(45deg,var(--unknown) 0 3px,
var(--unknown2) 3px 6px)}
.row{display:grid;grid-template-columns:14em 1fr 19em;gap:0 1em;align-items:start;
padding:.35em 0;border-bottom:1px solid var(--line)}
.row .name{overflow-wrap:anywhere}.row .figures{font-size:.9em;color:var(--dim);
font-variant-numeric:tabular-nums}.of{white-space:nowrap}
.of.missing{color:var(--missing)}.of.corrupt{color:var(--corrupt)}.of.unknown{color:var(--ink)}
.row svg{display:block;margin-top:.2em}
rect.track{fill:var(--track)}rect.held{fill:var(--held)}rect.missing{fill:var(--missing)}
rect.corrupt{fill:var(--corrupt)}rect.unknown{fill:url(#hatch)}
.hatch-back{fill:var(--unknown2)}.hatch-line{fill:var(--unknown)}
@media(max-width:52em){.row{grid-template-columns:1fr}}
"""
