"""What docs/topics/first-five-minutes.md tells people to type works, and prints what it shows."""

import re
import shlex
import shutil
import sys
from pathlib import Path

import pytest

from tests.integration.cli.conftest import Run
from tests.integration.cli.test_cli_demo import pasteable

_PAGE = Path(__file__).parents[3] / "docs" / "topics" / "first-five-minutes.md"
_TEXT = _PAGE.read_text(encoding="utf-8")


def shell_lines() -> list[str]:
    """What stands after a prompt, and the lines of shell blocks."""
    prompts = re.findall(r"^\$ (.+)$", _TEXT, re.MULTILINE)
    blocks = re.findall(r"^```sh\n(.*?)^```", _TEXT, re.MULTILINE | re.DOTALL)
    return [*prompts, *(re.sub(r"\\\n\s*", "", block).strip() for block in blocks)]


async def test_what_the_demo_prints_is_what_the_page_shows(run: Run) -> None:
    demo = await run("demo", "--no-pipeline", "--port", "0", "--no-traffic")
    for name in ("watch", "publish", "history", "document", "presence", "alerts", "SSE"):
        printed = re.sub(r"^.* -m arauto", ".venv/bin/arauto", await pasteable(demo, name))
        printed = re.sub(r" --url \S+$", "", re.sub(r":\d+/v1", ":8080/v1", printed))
        assert f"  {name:<9}{printed}\n" in _TEXT


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
async def test_publishing_with_curl_works_as_shown(run: Run, paste: Run) -> None:
    demo = await run("demo", "--no-pipeline", "--port", "0", "--no-traffic")
    at = (await demo.line("  address ")).split()[1].removesuffix(",")
    [post] = [line for line in shell_lines() if "/v1/publish" in line]
    sent = await paste(post.replace("http://127.0.0.1:8080", at.replace("ws:", "http:")) + " -sS")
    assert await sent.ended() == 0, sent
    assert '"serial"' in sent.out[0], sent
    read = await run("sub", "hello", "--history", "1", "-n", "1", "--hub", "shop", "--url", at)
    assert await read.ended() == 0, read
    assert read.out[0].endswith('{"from": "curl"}')


async def test_the_publish_lines_work_as_shown(run: Run, paste: Run) -> None:
    demo = await run("demo", "--no-pipeline", "--port", "0", "--no-traffic")
    at = (await demo.line("  address ")).split()[1].removesuffix(",")
    lines = [line for line in shell_lines() if "arauto pub" in line]
    assert len(lines) == 2
    for line in lines:
        program = f"{shlex.quote(sys.executable)} -m arauto"
        bash = shlex.quote(line.replace(".venv/bin/arauto", program))
        published = await paste(f"bash -c {bash}", environ={"ARAUTO_URL": at})
        assert await published.ended() == 0, published
        assert published.out
