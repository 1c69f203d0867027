package agentenv

import (
	"encoding/json"
	"os/exec"
	"strings"
	"testing"

	"github.com/purserpay/purser/internal/testing/needed"
)

var awkward = Environment{Variables: []Variable{
	{"A", "plain"}, {"B", `it's "so" $HOME \n ` + "`id`\nline"}, {"C", ""}, {"D", "<&>’"},
}}

func TestFormat(t *testing.T) {
	t.Parallel()
	for shell, want := range map[string]string{
		"sh":         "export B='it'\\''s \"so\" $HOME \\n `id`\nline'\n",
		"fish":       "set -gx B 'it\\'s \"so\" $HOME \\\\n `id`\nline'\n",
		"powershell": "$Env:B = 'it''s \"so\" $HOME \\n `id`\nline'\n",
	} {
		got, err := awkward.Format(shell)
		if err != nil || !strings.Contains(got, want) {
			t.Errorf("%s: %v, %s", shell, err, got)
		}
	}
	if got, _ := awkward.Format("powershell"); !strings.Contains(got, "'<&>’’'") {
		t.Errorf("%s", got)
	}
	got, err := awkward.Format("json")
	var m map[string]string
	if err != nil || json.Unmarshal([]byte(got), &m) != nil || len(m) != len(awkward.Variables) || !strings.Contains(got, "<&>") {
		t.Errorf("%v, %s", err, got)
	}
	for _, v := range awkward.Variables {
		if m[v.Name] != v.Value {
			t.Errorf("%s: %q, want %q", v.Name, m[v.Name], v.Value)
		}
	}
	if _, err := awkward.Format("cmd"); err == nil || !strings.Contains(err.Error(), "powershell") {
		t.Errorf("error %v", err)
	}
}

// A shell reads the values back unchanged.
func TestFormatIsReadByAShell(t *testing.T) {
	t.Parallel()
	sh := needed.Program(t, "every Unix has one", "sh")
	text, err := awkward.Format("sh")
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), sh, "-c", text+`printf '%s|' "$A" "$B" "$C" "$D"`).Output()
	if err != nil {
		t.Fatal(err)
	}
	want := ""
	for _, v := range awkward.Variables {
		want += v.Value + "|"
	}
	if string(out) != want {
		t.Errorf("%q, want %q", out, want)
	}
}

func TestApply(t *testing.T) {
	t.Parallel()
	e := Environment{Variables: []Variable{{"A", "new"}, {"B", "x=y"}}}
	got := strings.Join(e.Apply([]string{"A=old", "AB=kept", "A=older", "C"}), ";")
	if got != "AB=kept;C;A=new;B=x=y" {
		t.Errorf("%s", got)
	}
}
