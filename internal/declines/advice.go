package declines

import (
	"regexp"
	"strings"
)

// Advice says what to do about a reason, in sentences without markup.
type Advice struct {
	Developer string `json:"developer"` // of the agent
	Operator  string `json:"operator"`  // of purser
}

// String puts the sentences that ask for something on one line, for headers.
func (a *Advice) String() string {
	if a == nil {
		return ""
	}
	text := "Developer: " + a.Developer
	if !strings.HasPrefix(a.Operator, "Nothing") {
		text += " Operator: " + a.Operator
	}
	return text
}

// Do returns what to do about a reason; nil for a word that is none.
func Do(word string) *Advice {
	for _, r := range All() {
		if r.Word == word {
			return &Advice{sentence(r.Developer), sentence(r.Operator)}
		}
	}
	for _, r := range Refusals() {
		if r.Word == word && r.Developer != "" {
			return &Advice{sentence(r.Developer), sentence(r.Operator)}
		}
	}
	return nil
}

// link is one of Markdown, to a page or its part.
var link = regexp.MustCompile(`\[([^]]*)\]\([^)]*\)`)

// sentence makes a sentence of Markdown without one's form. A command at the beginning stays as it is.
func sentence(markdown string) string {
	text := strings.NewReplacer("`", "", "…", "...").Replace(link.ReplaceAllString(markdown, "$1"))
	if !strings.HasPrefix(markdown, "`") {
		text = strings.ToUpper(text[:1]) + text[1:]
	}
	if strings.HasSuffix(text, "...") {
		return text
	}
	return text + "."
}

// Why tells people of a reason in a sentence without markup; "" for a word that is none.
func Why(word string) string {
	for _, r := range All() {
		if r.Word == word {
			return strings.ReplaceAll(r.Why, "`", "")
		}
	}
	for _, r := range Refusals() {
		if r.Word == word {
			return strings.ReplaceAll(r.Why, "`", "")
		}
	}
	return ""
}
