package pay

import (
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// The list of docs/design/payments.md and those of judge.go have the same numbers and rules.
func TestChecksAreNumberedInTheDocs(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../docs/design/payments.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "## May this payment be made?\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var documented, checked []string
	for _, item := range regexp.MustCompile("(?m)^([0-9]+)\\. `([a-z-]+)`: ").FindAllStringSubmatch(section, -1) {
		documented = append(documented, item[1]+" "+item[2])
	}
	number := func(rule string) { checked = append(checked, strconv.Itoa(len(checked)+1)+" "+rule) }
	for _, check := range ofRequirement {
		number(check.rule)
	}
	for _, check := range ofPayment {
		number(check.rule)
	}
	if !slices.Equal(documented, checked) {
		t.Errorf("docs/design/payments.md has %q, pay/judge.go %q", documented, checked)
	}
}
