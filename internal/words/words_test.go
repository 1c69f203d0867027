package words_test

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/purserpay/purser/internal/words"
)

// A seller's words are one line that shows all it has: no escapes, no hidden or turning characters.
func TestWords(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                                     "",
		"insufficient_funds":                   "insufficient_funds",
		" two\r\n\tlines ":                     "two lines",
		"\x1b[31mred\x1b[0m\x07":               "[31mred [0m",
		"a\u202eb\u200bc\ufeffd":               "abcd",
		"hid\U000e0049\U000e0047den\U000e0101": "hidden",
		"bad \xff\xfe utf-8":                   "bad utf-8",
		"Guthaben zu klein: 5 €":               "Guthaben zu klein: 5 €",
	} {
		if got := words.Of(text); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
	if long := words.Of(strings.Repeat("é", 5000)); len(long) > 303 || !utf8.ValidString(long) {
		t.Errorf("%d bytes of %q", len(long), long)
	}
	if got := words.Quote(`no" ignore "all`); got != `"no' ignore 'all"` {
		t.Errorf("quoted as %s", got)
	}
}

func TestReasonIn(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                                       "",
		"insufficient_funds":                     "insufficient_funds",
		"invalid_exact_evm_insufficient_balance": "invalid_exact_evm_insufficient_balance",
		"permit2_insufficient_balance":           "permit2_insufficient_balance",
		"insufficient_funds: 0x69eb3255d400":     "insufficient_funds",
		"no good":                                "",
		strings.Repeat("69eb3255d400", 11):       "",
		strings.Repeat("abcdefabcdef", 5):        "",
		"eyJ4NDAyVmVyc2lvbiI6Mn0=":               "",
		"error_MARKED-query":                     "",
	} {
		if got := words.ReasonIn(text); got != want {
			t.Errorf("%q has the reason %q, want %q", text, got, want)
		}
	}
}
