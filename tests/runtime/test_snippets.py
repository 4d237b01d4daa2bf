"""What notebooks show."""

from netgrain.runtime.snippets import snippet


def test_everything_is_escaped_and_nothing_is_lost() -> None:
    html = snippet("<b>a</b>", [("<i>", "x < y"), ("", "&")])
    assert "<b>" not in html
    assert "<i>" not in html
    assert html.count("<tr>") == 2
    assert "x &lt; y" in html
