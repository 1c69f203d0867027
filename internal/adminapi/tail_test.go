package adminapi_test

import (
	"bufio"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/purserpay/purser/internal/adminapi"
	"github.com/purserpay/purser/internal/cli/clitest"
	"github.com/purserpay/purser/internal/feed"
	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/policy"
)

// tailing runs 'purser tail' and returns its lines, and its end.
func (w *world) tailing(flags ...string) (*bufio.Scanner, <-chan clitest.Outcome) {
	w.t.Helper()
	read, write := io.Pipe()
	ended := make(chan clitest.Outcome, 1)
	go func() { // ended tells
		line := clitest.Line{Dir: w.t.TempDir(), Environ: []string{"PURSER_ADMIN=unix/" + w.socket}, Stdout: write}
		ended <- line.Run(w.t, append([]string{"tail"}, flags...)...)
		_ = write.Close()
	}()
	return bufio.NewScanner(read), ended
}

// The command tells each event once, in words for people, and the end as well.
func TestTail(t *testing.T) {
	w := newWorld(t)
	k := w.key("rese\x1b[31march")
	price := money.New(2_500_000)
	p := &pay.Payment{
		ID: "01a209bd-546f-7641-8036-f3867ab97d01", KeyID: k.ID, Door: policy.DoorProxy, Task: "nightly", Host: "api.example.com",
		Terms: pay.Terms{Amount: money.New(10_000)}, Transaction: "0xab",
	}
	w.Feed.Add(feed.Of(p, "confirmed")) // before the command
	lines, ended := w.tailing()
	next := func() string {
		if !lines.Scan() {
			t.Fatalf("it ended: %+v", <-ended)
		}
		return strings.Join(strings.Fields(lines.Text()), " ")
	}
	if got := next(); got != "TIME STATE USDC KEY HOST TASK PAYMENT OR REASON" {
		t.Error(got)
	}
	w.Feed.Add(feed.Of(p, "settled"))
	if got := next(); !strings.HasSuffix(got, " settled 0.01 rese\ufffd[31march api.example.com nightly 01a209bd-546f-7641") {
		t.Error(got)
	}
	w.Feed.Add(feed.OfDecline(policy.DoorProxy, pay.Decline{Reason: "per-payment", Detail: "2.50 USDC is too much", KeyID: k.ID, Host: "api.example.com", Price: &price}))
	w.Feed.Add(feed.OfDecline(policy.DoorAPI, pay.Decline{Reason: "quota", KeyID: "gone"}))
	if got := next(); !strings.HasSuffix(got, " declined 2.5 rese\ufffd[31march api.example.com - per-payment: 2.50 USDC is too much") {
		t.Error(got)
	}
	if got := next(); !strings.HasSuffix(got, " declined - gone - - quota") {
		t.Error(got)
	}
	w.Feed.Close()
	if o := <-ended; o.Status != 0 || o.Stderr != "purser: purser has stopped\n" || strings.Count(o.Stdout, "\n") != 4 {
		t.Errorf("%+v", o)
	}
}

func TestTailFilters(t *testing.T) {
	w := newWorld(t)
	k := w.key("research")
	for i := range 8 {
		d := pay.Decline{Reason: fmt.Sprint(i), KeyID: k.ID, Task: "a", Host: "a.example"}
		if i%2 == 1 {
			d.Task = "b"
		}
		if i > 3 {
			d.KeyID, d.Host = "other", "b.example"
		}
		w.Feed.Add(feed.OfDecline(policy.DoorProxy, d))
	}
	for query, want := range map[string]string{
		"": "01234567", "&key=research": "0123", "&task=b": "1357", "&host=https://a.example/x": "0123", "&state=declined": "01234567", "&task=a&host=b.example": "46",
		"&feed=another": "01234567",
	} {
		page := get[adminapi.Tail](w, "/tail?after=0"+query)
		got := ""
		for _, e := range page.Events {
			got += e.Reason
		}
		if got != want || page.Next != 8 || page.Feed != w.Feed.ID() {
			t.Errorf("%s: %s, want %s; %+v", query, got, want, page)
		}
	}
	if page := get[adminapi.Tail](w, "/tail?key=research"); page.Next != 8 || len(page.Events) != 0 {
		t.Errorf("%+v", page)
	}
	for range feed.Kept {
		w.Feed.Add(feed.OfDecline(policy.DoorProxy, pay.Decline{Reason: "x"}))
	}
	if page := get[adminapi.Tail](w, "/tail?after=3"); page.Missed != 5 || len(page.Events) != feed.Kept {
		t.Errorf("%d missed of %d", page.Missed, len(page.Events))
	}
	w.answers(
		request{"GET", "/tail?state=lost", "", 400, "state: some of open"}, request{"GET", "/tail?after=x", "", 400, "after"},
		request{"GET", "/tail?key=nobody", "", 404, "no key has"}, request{"POST", "/tail", "{}", 405, ""},
	)
	w.fails(map[string]string{"tail --state lost": "none of open", "tail --key nobody": "no key has the id", "tail x": "takes no arguments"})

	w.Feed.Close()
	if o := w.command("tail --json"); o.Status != 0 || o.Stdout != "" || !strings.Contains(o.Stderr, "has stopped") {
		t.Errorf("%+v", o)
	}
}
