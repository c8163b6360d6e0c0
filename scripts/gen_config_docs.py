"""Write docs/operations/configuration.md from the schema; with --check, only say whether it is fresh."""

import sys
from pathlib import Path

from arauto.config.document import reference_page

PAGE = Path(__file__).parent.parent / "docs" / "operations" / "configuration.md"


def main() -> int:
    page = reference_page()
    if "--check" in sys.argv[1:]:
        fresh = PAGE.is_file() and PAGE.read_text(encoding="utf-8") == page
        print("fresh" if fresh else f"stale: run python {Path(__file__).name}")
        return 0 if fresh else 1
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    PAGE.write_text(page, encoding="utf-8")
    print(f"wrote {PAGE.relative_to(PAGE.parents[2])}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
