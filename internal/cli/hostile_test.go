package cli_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/purserpay/purser/internal/cli"
	"github.com/purserpay/purser/internal/cli/clitest"
)

// Whatever a purser, or what only claims to be one, answers: nothing in it reaches the terminal
// as more than text.
func TestNothingSteersTheTerminal(t *testing.T) {
	t.Parallel()
	text, err := json.Marshal(cli.Hostile)
	if err != nil {
		t.Fatal(err)
	}
	page := strings.ReplaceAll(`{"KEYS":[{"id":H,"label":H,"organization_id":H,"in_force":{"proxy":{"doors":[H],"hosts":{H:{}}}}}],
		"WALLETS":[{"id":H,"key_id":H,"network":H,"address":H,"balance":H,"balance_unknown":H}],
		"SPEND":[{"id":H,"host":H,"task":H,"key_id":H,"payment_id":H,"flags":[H],"amount":H,"currency":H,"request_url":H}],
		"PAYMENTS":[{"id":H,"host":H,"key_id":H,"reason":H,"state":H,"flags":[H],"amount":H}],
		"ORGANIZATIONS":[{"id":H,"plan":H}],"ok":false,"version":H,"store":{"kind":H,"path":H,"world":H},
		"health":{"store":H,"facilitator":H,"rpc":H,"network":H,"wallets":H},"path":H,"faults":[H],
		"key":H,"key_id":H,"network":H,"address":H,"id":H,"label":H,"state":"open","flags":[H],"amount":H,"reason":H,"unresolvable":H,"detail":H,
		"in_force":{"proxy":{"doors":[H],"hosts":{H:{}}}},"host":H,"request_url":H,"steps":[{"what":H}],"evidence":[H],
		"pending":true,"networks":[{"network":H,"error":H}],"strange":[H]}`, "H", string(text))
	for _, name := range []string{"KEYS", "WALLETS", "SPEND", "PAYMENTS", "ORGANIZATIONS"} {
		page = strings.Replace(page, name, strings.ToLower(name), 1)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch path := r.URL.Path; {
		case strings.HasSuffix(path, "/refused"):
			w.WriteHeader(http.StatusConflict)
			fmt.Fprintf(w, `{"error":%s}`, text)
		case path == "/purser/check":
			fmt.Fprintf(w, `{"path":%[1]s,"faults":[%[1]s]}`, text)
		case path == "/purser/archive":
			fmt.Fprintf(w, `{"id":%[1]s,"state":%[1]s,"flags":[%[1]s],"host":%[1]s,"reason":%[1]s,"amount":%[1]s,"spend":[{"id":%[1]s,"amount":%[1]s}]}`, text)
		case path == "/purser/organizations/x/plan":
			fmt.Fprintf(w, `{"id":%[1]s,"plan":%[1]s}`, text)
		default:
			_, _ = io.WriteString(w, page)
		}
	}))
	defer server.Close()
	admin := "--admin=" + strings.TrimPrefix(server.URL, "http://")
	for _, line := range []string{
		"keys", "keys --json", "wallets", "spend", "spend --csv", "spend --json", "archive", "archive --format csv", "payments", "payments show x", "payments show x --json",
		"organizations", "limits x", "limits", "status", "status --json", "check", "check --json", "reconcile", "keys create", "keys create --json",
		"wallets create --key x", "limits x --daily-budget 1", "payments resolve x --as void --reason y", "organizations plan x free", "init --yes",
		"payments show refused", "limits refused", "__complete limits", "__complete payments show",
	} {
		fields := append(strings.Fields(line), admin)
		completes := fields[0] == "__complete"
		if completes {
			fields = append(fields, "")
		}
		o := clitest.Run(t, nil, fields...)
		if completes { // the tab is before what describes an id
			o.Stdout = strings.ReplaceAll(o.Stdout, "\t", "")
		}
		if cli.Steers(o.Stdout+o.Stderr) || !strings.Contains(o.Stdout+o.Stderr, "2Jc") {
			t.Errorf("%s: %d, %q, %q", line, o.Status, o.Stdout, o.Stderr)
		}
		if strings.Contains(line, "--json") && !json.Valid([]byte(o.Stdout)) {
			t.Errorf("%s: no JSON: %q", line, o.Stdout)
		}
		if strings.HasSuffix(line, "refused") && o.Status != 1 {
			t.Errorf("%s: %d", line, o.Status)
		}
	}
}

// A mistake is one line that says where to read on, and a secret is not sent as an id, where it
// would be logged.
func TestMistakes(t *testing.T) {
	asked := make(chan string, 100)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked <- r.URL.String()
		http.Redirect(w, r, "/elsewhere", http.StatusTemporaryRedirect)
	}))
	defer server.Close()
	environ := []string{"PURSER_ADMIN=" + strings.TrimPrefix(server.URL, "http://")}
	for _, c := range []struct{ args, want string }{
		{"payments show", "takes ID, and was given none"},
		{"payments shwo x", "takes no arguments but dispute or list or resolve or show"},
		{"payments --limit x", "invalid argument"},
		{"payments --since soon", "--since"},
		{"spend --since 1d --until 3d", "is before --since"},
		{"keys --limit 0", "--limit: a number above 0"},
		{"status x", "takes no arguments"},
		{"status pk_12345678", "an API key"},
		{"limits  ", ""}, // stands for an empty argument, below
		{"payments show ..", "is not an id"},
		{"limits pk_12345678", "is an API key itself"},
		{"limits pk_12345678 --daily-budget 1", "is an API key itself"},
		{"spend --key pk_12345678", "is an API key itself"},
		{"wallets --key pk_12345678", "is an API key itself"},
		{"wallets create --key pk_12345678", "is an API key itself"},
		{"organizations plan . free", "is not an id"},
		{"status --admin http://127.0.0.1:1", "write it as"},
		{"status --admin nonsense", "write it as"},
	} {
		args := strings.Fields(c.args)
		if c.want == "" {
			args, c.want = append(args, "", "--daily-budget", "1"), "is not an id"
		}
		o := clitest.Run(t, environ, args...)
		if o.Status != 1 || !strings.HasPrefix(o.Stderr, "purser: ") || strings.Count(o.Stderr, "\n") != 1 || !strings.Contains(o.Stderr, c.want) ||
			strings.Contains(o.Stderr, "pk_") || o.Stdout != "" {
			t.Errorf("%s: %d, %q, %q", c.args, o.Status, o.Stdout, o.Stderr)
		}
	}
	if len(asked) > 0 {
		t.Errorf("asked: %s", <-asked)
	}
	// A server that redirects is no admin endpoint, and is not followed.
	if o := clitest.Run(t, environ, "keys", "create"); o.Status != 1 || !strings.Contains(o.Stderr, "is it a purser of this version?") || len(asked) != 1 {
		t.Errorf("%d, %q, asked %d times", o.Status, o.Stderr, len(asked))
	}
}
