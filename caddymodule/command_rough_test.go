package caddymodule

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/purserpay/purser/internal/adminapi"
	"github.com/purserpay/purser/pay"
)

// hostile is what sellers and agents may write: escapes of both kinds, a bell, a change of
// direction, a tab and a line's end.
const hostile = "a\x1b[31mb\u009b2Jc\u202ed\ae\tf\ng"

// steers reports whether a text has more in it than lines of characters.
func steers(text string) bool {
	return strings.ContainsFunc(text, func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) })
}

// Whatever a purser, or what only claims to be one, answers: nothing in it reaches the terminal
// as more than text.
func TestNothingSteersTheTerminal(t *testing.T) {
	t.Parallel()
	text, err := json.Marshal(hostile)
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
		case path == "/purser/organizations/x/plan":
			fmt.Fprintf(w, `{"id":%[1]s,"plan":%[1]s}`, text)
		default:
			_, _ = io.WriteString(w, page)
		}
	}))
	defer server.Close()
	admin := "--admin=" + strings.TrimPrefix(server.URL, "http://")
	for _, line := range []string{
		"keys", "keys --json", "wallets", "spend", "spend --csv", "spend --json", "payments", "payments show x", "payments show x --json",
		"organizations", "limits x", "limits", "status", "status --json", "check", "check --json", "reconcile", "keys create", "keys create --json",
		"wallets create --key x", "limits x --daily-budget 1", "payments resolve x --as void --reason y", "organizations plan x free", "init --yes",
		"payments show refused", "limits refused", "__complete limits", "__complete payments show",
	} {
		fields := append(strings.Fields(line), admin)
		completes := fields[0] == "__complete"
		if completes {
			fields = append(fields, "")
		}
		o := command(t, nil, fields...)
		if completes { // the tab is before what describes an id
			o.stdout = strings.ReplaceAll(o.stdout, "\t", "")
		}
		if steers(o.stdout+o.stderr) || !strings.Contains(o.stdout+o.stderr, "2Jc") {
			t.Errorf("%s: %s, %q, %q", line, o.state, o.stdout, o.stderr)
		}
		if strings.Contains(line, "--json") && !json.Valid([]byte(o.stdout)) {
			t.Errorf("%s: no JSON: %q", line, o.stdout)
		}
		if strings.HasSuffix(line, "refused") && o.status() != 1 {
			t.Errorf("%s: %s", line, o.state)
		}
	}
}

func TestTable(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	tab := newTable(&b)
	tab.row("LABEL", "N", "")
	tab.row("ラベル", "1", "")
	tab.row("e\u0301\u0301", "2", "x")
	if err := tab.flush(); err != nil {
		t.Fatal(err)
	}
	if want := "LABEL   N\nラベル  1\ne\u0301\u0301       2  x\n"; b.String() != want {
		t.Errorf("%q, want %q", b.String(), want)
	}
}

func TestPlainJSON(t *testing.T) {
	t.Parallel()
	want := hostile + "\U000E0041日本<\u2028"
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	if err := e.Encode(map[string]string{"x": want}); err != nil {
		t.Fatal(err)
	}
	plain := plainJSON(text.Bytes())
	var got map[string]string
	if err := json.Unmarshal(plain, &got); err != nil || got["x"] != want || steers(string(plain)) || !strings.Contains(string(plain), "日本<") {
		t.Errorf("%v: %s", err, plain)
	}
	if got := plainJSON([]byte("\"\x9b\"")); !json.Valid(got) || steers(string(got)) {
		t.Errorf("%q", got)
	}
}

// What is exported begins no formula, except that amounts are numbers.
func TestCSVIsInert(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	w := csvTable{csv.NewWriter(&b)}
	if err := w.row([]string{"=1+1", "-0.5", "a;=x", "@x\"", "-task", "plain, text", "http://x/?a=b"}); err != nil {
		t.Fatal(err)
	}
	w.Flush()
	rows, err := csv.NewReader(&b).ReadAll()
	if want := `["'=1+1" "-0.5" "a;'=x" "'@x\"" "'-task" "plain, text" "http://x/?a=b"]`; err != nil || fmt.Sprintf("%q", rows[0]) != want {
		t.Errorf("%q, %v", rows, err)
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
		{"payments shwo x", "takes no arguments but resolve or show"},
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
		o := command(t, environ, args...)
		if o.status() != 1 || !strings.HasPrefix(o.stderr, "purser: ") || strings.Count(o.stderr, "\n") != 1 || !strings.Contains(o.stderr, c.want) ||
			strings.Contains(o.stderr, "pk_") || o.stdout != "" {
			t.Errorf("%s: %s, %q, %q", c.args, o.state, o.stdout, o.stderr)
		}
	}
	if len(asked) > 0 {
		t.Errorf("asked: %s", <-asked)
	}
	// What answers with a redirection is no admin endpoint, and is not followed.
	if o := command(t, environ, "keys", "create"); o.status() != 1 || !strings.Contains(o.stderr, "is it a purser of this version?") || len(asked) != 1 {
		t.Errorf("%s, %q, asked %d times", o.state, o.stderr, len(asked))
	}
}

// A health check that prints only what is wrong says what that is.
func TestStatusSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	for want, s := range map[string]adminapi.Status{
		"purser has not started":                       {},
		"not all is well; RPC: no route":               {Health: &adminapi.HealthStatus{Store: "ok", Facilitator: "none", RPC: "no route"}},
		"not all is well; store: full; facilitator: x": {Health: &adminapi.HealthStatus{Store: "full", Facilitator: "x", RPC: "ok"}},
	} {
		if got := unwellText(s); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// Lists end where they are told to, and say that there is more.
func TestLists(t *testing.T) {
	s := newSite(t)
	socket, _ := adminSite(t, s)
	ids := journaled(t, time.Hour, 60*24*time.Hour, 0)
	if text := told(t, socket, "payments", "--since", "2d"); !strings.Contains(text, ids[0]) || !strings.Contains(text, ids[2]) || strings.Contains(text, ids[1]) {
		t.Errorf("%s", text)
	}
	if text := told(t, socket, "payments", "--until", "30d"); !strings.Contains(text, ids[1]) || strings.Contains(text, ids[2]) {
		t.Errorf("%s", text)
	}
	if page := decode[adminapi.Payments](t, told(t, socket, "payments", "--limit", "2", "--json")); len(page.Payments) != 2 || page.Next != ids[1] {
		t.Errorf("%+v", page)
	}
	// What the days leave out does not count.
	if page := decode[adminapi.Payments](t, told(t, socket, "payments", "--since", "2d", "--limit", "1", "--json")); len(page.Payments) != 1 || page.Next != ids[2] {
		t.Errorf("%+v", page)
	}
	if page := decode[adminapi.Payments](t, told(t, socket, "payments", "--until", "30d", "--limit", "1", "--json")); len(page.Payments) != 1 ||
		page.Payments[0].ID != ids[1] || page.Next != ids[1] {
		t.Errorf("%+v", page)
	}
	for args, want := range map[string][3]bool{
		"--task task-1":                                 {1: true},
		"--task task-2 --since 2d":                      {2: true},
		"--task task-1 --since 2d":                      {},
		"--host https://API.example.com/x --state open": {true, true, true},
		"--host api.example.com --task task-0":          {0: true},
		"--host api.example.com:8443":                   {},
	} {
		text := told(t, socket, append([]string{"payments"}, strings.Fields(args)...)...)
		for i, id := range ids {
			if strings.Contains(text, id) != want[i] {
				t.Errorf("%s, payment %d: %s", args, i, text)
			}
		}
	}
	for range 3 {
		told(t, socket, "keys", "create")
	}
	o := command(t, []string{"PURSER_ADMIN=unix/" + socket}, "wallets", "--limit", "2")
	if strings.Count(o.stdout, "\n") != 3 || !strings.Contains(o.stderr, "there are more") {
		t.Errorf("%q, %q", o.stdout, o.stderr)
	}
	if text := told(t, socket, "__complete", "limits", ""); strings.Count(text, "-") < 12 || !strings.HasPrefix(text, "exec\n") {
		t.Errorf("%s", text)
	}
	if text := told(t, socket, "__complete", "payments", "resolve", ""); !strings.Contains(text, ids[1]+"\topen, 0.01 USDC, api.example.com") {
		t.Errorf("%s", text)
	}
}

// A ruling comes before what it did, once; and a repeat of what is void is a new payment.
func TestStoryOfARuling(t *testing.T) {
	s := newSite(t)
	socket, _ := adminSite(t, s)
	ids := journaled(t, time.Hour, time.Hour, 0)
	text := told(t, socket, "payments", "resolve", ids[0], "--as", "void", "--reason", "nothing came in")
	ruling, void := strings.Index(text, "said that it is void: nothing came in\n"), strings.Index(text, "Z  void\n")
	if ruling < 0 || void < ruling || !strings.Contains(text, "a repeat of the request is a new payment") || strings.Contains(text, "gets this payment") {
		t.Errorf("%s", text)
	}
	text = told(t, socket, "payments", "show", ids[1])
	if !strings.Contains(text, "purser payments resolve "+ids[1]+" --as") || !strings.Contains(text, "1 of place/key-1/") || !strings.Contains(text, ", held\n") {
		t.Errorf("%s", text)
	}
	if text = told(t, socket, "payments", "show", ids[2]); !strings.Contains(text, "cannot be resolved: it is valid until") {
		t.Errorf("%s", text)
	}
}

func TestReservedText(t *testing.T) {
	t.Parallel()
	s := adminapi.Story{Payment: adminapi.Payment{State: pay.Settled, Currency: "USDC"}}
	for want, r := range map[string]adminapi.Reservation{
		"1 of place/k/2026-11, used":                 {Counter: "place/k/2026-11", Amount: "1"},
		"1 of pending/n/k, given back":               {Counter: "pending/n/k", Amount: "1", Released: true},
		"0.01 USDC of day/k/USDC/2026-11-22, used":   {Counter: "day/k/USDC/2026-11-22", Amount: "10000"},
		"0.01 USDC of hold/w/USDC, given back":       {Counter: "hold/w/USDC", Amount: "10000", Released: true},
		"0.01 USDC of pending/sum/k, given back":     {Counter: "pending/sum/k", Amount: "10000", Released: true},
		"1 of minute/k/2026-11-22T05:00, given back": {Counter: "minute/k/2026-11-22T05:00", Amount: "1", Released: true},
	} {
		if got := reservationText(s, r); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestSayIsOneLine(t *testing.T) {
	t.Parallel()
	var b bytes.Buffer
	c := new(cobra.Command)
	c.SetErr(&b)
	say(c, "%s", "purser: store: \x1b[2Jfull\nand more")
	if want := "purser: store: �[2Jfull; and more\n"; b.String() != want {
		t.Errorf("%q", b.String())
	}
}

// What is in the way of the first start is said by init.
func TestInitSaysWhatIsInTheWay(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "purser-data"), 0o755); err != nil { //nolint:gosec // that is what is told
		t.Fatal(err)
	}
	o := initIn(t, dir, "", nil, "--yes", "--listen", l.Addr().String())
	if o.status() != 0 || !strings.Contains(o.stdout, l.Addr().String()+" is taken by another program") || !strings.Contains(o.stdout, "chmod 700 purser-data") {
		t.Errorf("%s, %s%s", o.state, o.stdout, o.stderr)
	}
	// A purser that was named is asked, or nothing is done.
	dir = t.TempDir()
	if o := initIn(t, dir, "", nil, "--yes", "--admin", "unix/"+dir+"/no.sock"); o.status() != 1 || !strings.Contains(o.stderr, "no answer") || written(t, dir) != "" {
		t.Errorf("%s, %s: %s%s", o.state, written(t, dir), o.stdout, o.stderr)
	}
}

// A key in a file is in no history and no list of processes, and a wrong one is not repeated.
func TestExecWithKeyFile(t *testing.T) {
	s, _, _ := commandSite(t)
	key := newKey(t, s.url())
	file := filepath.Join(t.TempDir(), "agent.key")
	if err := os.WriteFile(file, []byte(key+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	o := command(t, nil, "exec", "--key-file", file, "--proxy", s.url(), "--", "sh", "-c", `echo "$HTTPS_PROXY"`)
	if o.status() != 0 || !strings.Contains(o.stdout, key+":exec@") {
		t.Errorf("%s, %q, %q", o.state, o.stdout, o.stderr)
	}
	for want, args := range map[string][]string{
		"not both":                     {"--key", key, "--key-file", file},
		"no such file":                 {"--key-file", file + "x"},
		"--key-file is not an API key": {"--key-file", "/dev/null"},
	} {
		o := command(t, nil, append(append([]string{"exec"}, args...), "true")...)
		if o.status() != execFailed || !strings.Contains(o.stderr, want) || strings.Contains(o.stderr, key) {
			t.Errorf("%s: %s, %q", want, o.state, o.stderr)
		}
	}
}
