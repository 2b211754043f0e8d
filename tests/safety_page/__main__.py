"""`make safety-page`: puts the figures of docs/proof into docs/safety.md."""

from safety_figures import PAGE, PROOF, read_figures, rendered

PAGE.write_text(rendered(PAGE.read_text(encoding="utf-8"), read_figures(PROOF)), encoding="utf-8")
print(f"{PAGE.name}: figures of {', '.join(read_figures(PROOF))}")
