package docs

import (
	"strings"
	"testing"
)

// night is the page with the answers of which people have need at once. Its anchors are linked to from elsewhere.
const night = "docs/at-three.md"

// Each of eight questions has one answer, which begins with commands, of which at least one is run. README and the page
// for operators lead there, and the page's own list leads to each.
func TestNight(t *testing.T) {
	t.Parallel()
	text := read(t, night)
	list, sections, _ := strings.Cut(text, "\n## ")
	answers := map[string]string{}
	for _, section := range strings.Split("\n"+sections, "\n## ") {
		title, answer, _ := strings.Cut(strings.TrimPrefix(section, "\n"), "\n")
		answers[title] = strings.TrimSpace(answer)
	}
	for title, anchor := range map[string]string{
		"An agent is over its budget": "an-agent-is-over-its-budget", "A key leaked": "a-key-leaked", "The RPC is dead": "the-rpc-is-dead",
		"Close the month": "close-the-month", "A seller gave nothing": "a-seller-gave-nothing", "The balance differs": "the-balance-differs",
		"Prove that I paid": "prove-that-i-paid", "Move to another server": "move-to-another-server",
	} {
		switch answer := answers[title]; {
		case answer == "":
			t.Errorf("%s has no answer to %q", night, title)
		case !strings.Contains(list, "](#"+anchor+")"):
			t.Errorf("the list does not lead to %q", title)
		case !strings.HasPrefix(answer, "<!-- run: "):
			t.Errorf("%q does not begin with commands that are run", title)
		case !strings.Contains(answer, ".md"):
			t.Errorf("%q leads no further", title)
		}
	}
	blocks, err := parseBlocks(night, text)
	if err != nil || len(blocks) != len(answers) {
		t.Errorf("%d blocks for %d answers, %v", len(blocks), len(answers), err)
	}
	for _, b := range blocks {
		if strings.TrimSpace(b.text) == "" {
			t.Errorf("%s: no command is run", b)
		}
	}
	for page, link := range map[string]string{"README.md": "](docs/at-three.md)", "docs/operating.md": "](at-three.md)"} {
		if !strings.Contains(read(t, page), link) {
			t.Errorf("%s does not lead to %s", page, night)
		}
	}
}
