package e2e

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/purserpay/purser/e2e/internal/process"
	"github.com/purserpay/purser/sandbox/hostile"
)

// The tests of this file end a purser while payments are in every stage (see stages).

// requireDone waits for some stages' requests, which must have got what they asked for, but for those that hung up.
func (d *drain) requireDone(t *testing.T, some func(stage) bool) {
	t.Helper()
	for i, s := range stages() {
		if some(s) {
			if err := <-d.results[i]; (err != nil) != s.gone {
				t.Errorf("%+v: %v", s, err)
			}
		}
	}
}

// requireRefused fails unless every door refuses new connections.
func (d *drain) requireRefused(t *testing.T) {
	t.Helper()
	for i, port := range []int{d.Port, d.Sidecar} {
		process.Eventually(t, 20*time.Second, func() string {
			conn, err := net.DialTimeout("tcp", "127.0.0.1:"+strconv.Itoa(port), 5*time.Second)
			if errors.Is(err, syscall.ECONNREFUSED) {
				return ""
			}
			if err == nil {
				_ = conn.Close()
			}
			return fmt.Sprintf("port %d: a connection: %v", i, err)
		})
	}
	for i, w := range []way{api, proxied, beside} {
		if d.buy(t.Context(), t, w, lateOrder+uint64(i)) == nil {
			t.Errorf("%s: served", w)
		}
	}
}

// requireRunning fails if the process ends, within more time than it leaves to what it does not know of.
func (d *drain) requireRunning(t *testing.T) {
	t.Helper()
	if d.EndsWithin(1500 * time.Millisecond) {
		t.Errorf("purser has ended, and had payments in flight")
	}
}

// ended waits for the process and fails unless its exit status is as wanted.
func (d *drain) ended(t *testing.T, within time.Duration, status int) {
	t.Helper()
	if !d.EndsWithin(within) {
		t.Fatalf("purser has not ended after %s", within)
	}
	if got := d.Cmd.ProcessState.ExitCode(); got != status {
		t.Errorf("exit status %d, want %d", got, status)
	}
}

// journaled finds what `purser check` says of the payments.
var journaled = regexp.MustCompile(`payments\s+(\d+) \(([^)]*)\)`)

// requireJournal fails unless the file of the purser that has ended is sound, and has so many payments of each state.
func (d *drain) requireJournal(t *testing.T, open, settled int) {
	t.Helper()
	out, err := d.Command(t, "check", "--data-dir", d.Data)
	found := journaled.FindStringSubmatch(out)
	if err != nil || found == nil {
		t.Fatalf("purser check: %s", out)
	}
	have := map[string]string{}
	for _, part := range strings.Split(found[2], ", ") {
		number, name, _ := strings.Cut(part, " ")
		have[name] = number
	}
	for name, n := range map[string]int{"open": open, "settled": settled, "void": 0} {
		if number := cmp.Or(have[name], "0"); number != strconv.Itoa(n) {
			t.Errorf("%s payments are %s, want %d", number, name, n)
		}
	}
}

// requireBooks starts purser again, has recovery close what is open, and fails unless every stage's payment is then as
// wanted, the books are the chain's, and nothing was paid for those that came too late.
func (d *drain) requireBooks(t *testing.T, state func(stage) string) {
	t.Helper()
	d.start(t)
	d.clock.Until(t, 3*time.Minute, func() string {
		if open := d.rows(t, "open"); len(open) > 0 {
			return fmt.Sprintf("%+v", open)
		}
		return ""
	})
	for _, c := range []*hostile.Customer{d.agent, d.owner} {
		books, ledger, err := process.ReadAccount(t.Context(), c, d.chain)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range hostile.Audit(books, ledger, nil) {
			if f.Rule != hostile.RuleChecked { // recovery's last look comes after the test's patience
				t.Error(f)
			}
		}
	}
	states := map[string]string{}
	for _, p := range d.rows(t, "") {
		if states[p.Amount] != "" {
			t.Errorf("two payments of %s", p.Amount)
		}
		states[p.Amount] = p.Label()
	}
	for i, s := range stages() {
		amount := strconv.Itoa((i + 1) * hostile.PriceStep)
		if states[amount] != state(s) {
			t.Errorf("%+v: %q, want %q", s, states[amount], state(s))
		}
		delete(states, amount)
	}
	if len(states) > 0 {
		t.Errorf("other payments: %v", states)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, order := range d.came {
		if order > lateOrder { // the very first is that of a customer who asks the seller by himself
			t.Errorf("order %d reached the seller", order)
		}
	}
}

// rows are the payments in a state, or all.
func (d *drain) rows(t *testing.T, state string) (list []hostile.Payment) {
	t.Helper()
	for _, c := range []*hostile.Customer{d.agent, d.owner} {
		books, err := hostile.ReadBooks(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range books.Payments {
			if state == "" || p.State == state {
				list = append(list, p)
			}
		}
	}
	return list
}

// keptAlive opens a connection and makes a request on it. The returned function makes another one on it, which asks for an
// order, and fails the test if that is answered.
func (d *drain) keptAlive(t *testing.T, order uint64) func() {
	t.Helper()
	conn, err := net.Dial("tcp", d.Host())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	answers := bufio.NewReader(conn)
	ask := func(url string) (*http.Response, error) {
		r, err := http.NewRequest(http.MethodGet, url, nil)
		if err != nil {
			return nil, err
		}
		(&http.Request{Header: r.Header}).SetBasicAuth(d.agent.Key, "")
		r.Header.Set("Proxy-Authorization", r.Header.Get("Authorization"))
		r.Header.Del("Authorization")
		_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
		if err := r.WriteProxy(conn); err != nil {
			return nil, err
		}
		return http.ReadResponse(answers, r)
	}
	res, err := ask(d.URL("/"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, res.Body); err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("%s: %v", res.Status, err)
	}
	return func() {
		t.Helper()
		if res, err := ask(fmt.Sprintf("%s/buy?id=%d", d.site.plain, order)); err == nil {
			t.Errorf("order %d on a connection that was kept alive: %s", order, res.Status)
		}
	}
}

// keptTunnel is the same for an intercepted connection.
func (d *drain) keptTunnel(t *testing.T, order uint64) func() {
	t.Helper()
	client := (&payer{host: d.Host(), key: d.agent.Key}).behind(t, false)
	requireStatus(t, send(t, client, "GET", d.site.https+"/buy?id=0", ""), http.StatusBadRequest)
	return func() {
		t.Helper()
		if got, err := process.Ask(t.Context(), client, "GET", fmt.Sprintf("%s/buy?id=%d", d.site.https, order), ""); err == nil {
			t.Errorf("order %d on an intercepted connection that was kept alive: %+v", order, got)
		}
	}
}

// A purser that is told to end finishes requests in flight, takes no new ones, closes the store and
// exits with status 0.
func TestEndFinishesWhatIsInFlight(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(t *testing.T, d *drain){
		"SIGTERM": func(t *testing.T, d *drain) { d.signal(t, syscall.SIGTERM) },
		"SIGINT":  func(t *testing.T, d *drain) { d.signal(t, syscall.SIGINT) },
		"purser stop": func(t *testing.T, d *drain) {
			t.Helper()
			stopped := make(chan struct{})
			t.Cleanup(func() { <-stopped })
			go func() { // it waits
				defer close(stopped)
				if out, err := d.Command(t, "stop", "--address", "unix/"+d.Socket()); err != nil {
					t.Errorf("purser stop: %s", out)
				}
			}()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// How long it takes until all are let go is not what is tested.
			d := startDrain(t, holding, "grace_period 30s", "grace_period 3m")
			again, inside := d.keptAlive(t, lateOrder+100), d.keptTunnel(t, lateOrder+101)
			end(t, d)
			d.requireRefused(t)
			again()
			inside()
			// The grace period is for each kind, also when nothing else is left.
			for _, intercepted := range []bool{false, true} {
				for _, gone := range []bool{false, true} {
					kind := func(s stage) bool { return s.intercepted() == intercepted && s.gone == gone }
					d.requireRunning(t)
					d.letGo(kind)
					d.requireDone(t, kind)
				}
			}
			d.ended(t, 20*time.Second, 0)
			d.requireJournal(t, 0, len(stages()))
			d.requireBooks(t, func(stage) string { return "settled" })
		})
	}
}

func (d *drain) signal(t *testing.T, s os.Signal) {
	t.Helper()
	if err := d.Cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
}

// A payment that is not done when the grace period is over is open in the journal. After the next start, recovery books
// it if the parties still settle it, and voids it if not. The process ends in time, and another signal in between
// changes nothing.
func TestEndLeavesTheRestToRecovery(t *testing.T) {
	t.Parallel()
	// Authorizations must outlast the end of the process, and expire soon.
	d := startDrain(t, time.Minute, "grace_period 30s", "grace_period 2s")
	d.signal(t, syscall.SIGTERM)
	d.requireRefused(t)
	d.signal(t, syscall.SIGTERM)
	// The grace period, and what the store waits for work in flight.
	d.ended(t, 2*time.Second+10*time.Second+8*time.Second, 0)
	d.letGo(func(stage) bool { return true })
	d.requireLost(t)
	d.requireJournal(t, count(left, "open"), count(left, "settled"))
	d.requireBooks(t, final)
}

// Payments in flight are waited for a little longer than the grace period: what comes for them then is in the journal when the
// process ends. None is begun in that time.
// Without t.Parallel: all of them have a few seconds to come.
func TestEndRecordsWhatComesLate(t *testing.T) {
	d := startDrain(t, time.Minute, "grace_period 30s", "grace_period 1s")
	d.signal(t, syscall.SIGTERM)
	process.Eventually(t, 20*time.Second, func() string {
		if said := d.Output.String(); !strings.Contains(said, "graceful shutdown 1s timeout") {
			return said
		}
		return ""
	})
	d.requireRunning(t)
	d.letGo(func(stage) bool { return true })
	d.ended(t, 20*time.Second, 0)
	begun := func(s stage) string {
		if s.moment == beforeChallenge {
			return ""
		}
		return "settled"
	}
	d.requireJournal(t, 0, count(begun, "settled"))
	d.requireBooks(t, begun)
}

// requireLost fails unless no stage's request has got what it asked for.
func (d *drain) requireLost(t *testing.T) {
	t.Helper()
	for i, s := range stages() {
		if err := <-d.results[i]; err == nil {
			t.Errorf("%+v: done", s)
		}
	}
}

// A second SIGINT ends the process at once, with a status that says so. The books stay sound, and nothing is lost.
func TestEndAtOnce(t *testing.T) {
	t.Parallel()
	d := startDrain(t, time.Minute)
	d.signal(t, syscall.SIGINT)
	d.requireRefused(t)
	d.signal(t, syscall.SIGINT)
	d.ended(t, 5*time.Second, 2)
	d.letGo(func(stage) bool { return true })
	d.requireLost(t)
	d.requireJournal(t, count(left, "open"), count(left, "settled"))
	d.requireBooks(t, final)
}
