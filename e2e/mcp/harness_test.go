package mcp

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"

	"github.com/ethereum/go-ethereum/common"

	"github.com/purserpay/purser/x402"
)

var update = flag.Bool("update", false, "write what is captured to testdata")

// A tally counts a run in four places, which must agree.
type tally struct{ Calls, Results, Runs, Debits int }

// require fails the test unless there were n of each.
func (got tally) require(t testing.TB, n int) {
	t.Helper()
	if want := (tally{n, n, n, n}); got != want {
		t.Errorf("got %+v, want %d of each", got, n)
	}
}

// count makes the tally of a run for a city. wallet bought from this seller nothing else.
func (s *seller) count(t testing.TB, results []result, city string, wallet x402.Address) tally {
	t.Helper()
	n := tally{Calls: len(results), Runs: s.runs(t, city), Debits: env.debits(t, wallet, s.PayTo)}
	for _, r := range results {
		if r.delivered(city) {
			n.Results++
		}
	}
	return n
}

// debits counts the payments from a wallet to a payee. Each must be the price.
func (w *world) debits(t testing.TB, wallet, payee x402.Address) int {
	t.Helper()
	from, to := common.Address(wallet.EVM()), common.Address(payee.EVM())
	moved, err := w.Money.Chain.Transfers(t.Context(), &from, &to, 0)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range moved {
		if m.Value.Int64() != price {
			t.Errorf("a payment of %s", m.Value)
		}
	}
	return len(moved)
}

var cities atomic.Int64

// newCity names a city that no other run asks for.
func newCity() string { return fmt.Sprintf("Kiel-%d", cities.Add(1)) }

// some is one of the clients for a kind, another one for each, or all of them when their words are captured.
func some(k kind) []client {
	if *update {
		return clients
	}
	i := slices.IndexFunc(slices.Concat(kinds, resumable), func(other kind) bool { return other.name == k.name })
	return clients[i%len(clients):][:1]
}

// Each seller asks for money, which its client shows to its caller: without a payer nothing runs and nothing is paid. With
// the small payer of these tests the four numbers are the same.
func TestUnpaidAndPaidCalls(t *testing.T) {
	t.Parallel()
	for _, k := range slices.Concat(kinds, resumable) {
		for _, c := range some(k) {
			t.Run(k.name+" "+c.name, func(t *testing.T) {
				t.Parallel()
				s, unpaid, city, p := env.seller(t, k), newCity(), newCity(), newPayer(t)
				w := newWire(t, s.URL, func(send sender) sender {
					paying := p.paying(send)
					return func(r *http.Request, body []byte) (*http.Response, error) {
						if bytes.Contains(body, []byte(`"`+unpaid+`"`)) {
							return send(r, body)
						}
						return paying(r, body)
					}
				})
				got := c.run(t, endpoint(w.URL), append(weather(unpaid, 1), weather(city, 2)...))
				if got[0].delivered(unpaid) || s.runs(t, unpaid) != 0 {
					t.Fatalf("%+v", got[0])
				}
				s.count(t, got[1:], city, p.wallet).require(t, 2)
				calls := w.calls()
				if len(calls) != 5 || t.Failed() {
					t.Fatalf("%d calls: %+v\n%+v", len(calls), calls, got)
				}
				requireChallenge(t, calls[0], k.dialect, s.PayTo)
				capture(t, "challenges", k, c, calls[0])
				if c.name == "npm-client-2.4" || c.name == "pypi-mcp-1.30" {
					capture(t, "paid", k, c, calls[2])
				}
			})
		}
	}
}

// The challenges in testdata are in the dialects of their sellers.
func TestCapturedChallenges(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob(filepath.Join("testdata", "challenges", "*.json"))
	if err != nil || len(files) != len(clients)*(len(kinds)+len(resumable)) {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var x struct {
			Dialect dialect
			exchange
		}
		if err := json.Unmarshal(text, &x); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if _, by, found := x.message(t).terms(); !found || by != x.Dialect {
			t.Errorf("%s: dialect %q", file, by)
		}
	}
}

// requireChallenge fails unless an exchange ends with a challenge of a dialect.
func requireChallenge(t testing.TB, x exchange, want dialect, payTo x402.Address) {
	t.Helper()
	m := x.message(t)
	terms, by, found := m.terms()
	if !found || by != want {
		t.Fatalf("dialect %q in %s", by, x.Content)
	}
	challenge, err := x402.DecodeBody(terms)
	if err != nil || len(challenge.Accepts) == 0 || challenge.Accepts[0].Problem != nil {
		t.Fatalf("%v in %s", err, terms)
	}
	if got := challenge.Accepts[0]; got.Amount.String() != fmt.Sprint(price) || got.PayTo != payTo {
		t.Fatalf("terms %s", terms)
	}
}

// message is the answer to the request.
func (x exchange) message(t testing.TB) (m message) {
	t.Helper()
	var asked struct{ ID json.RawMessage }
	if err := json.Unmarshal([]byte(x.Body), &asked); err != nil {
		t.Fatal(err)
	}
	_, m, err := answerTo(x.response(), asked.ID)
	if err != nil {
		t.Fatalf("%v in %q", err, x.Content)
	}
	return m
}

// capture writes an exchange to testdata, if the tests are told to.
func capture(t testing.TB, folder string, k kind, c client, x exchange) {
	t.Helper()
	if !*update {
		return
	}
	text, err := json.MarshalIndent(struct {
		Seller  string  `json:"seller"`
		Client  string  `json:"client"`
		Dialect dialect `json:"dialect"`
		exchange
	}{k.name, c.name, k.dialect, x}, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join("testdata", folder)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, k.name+"_"+c.name+".json"), append(text, '\n'), 0o644); err != nil {
		t.Fatal(err)
	}
}
