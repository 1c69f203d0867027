package mpp

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/purserpay/purser/sandbox/mppshop"
)

// crowd is the number of purchases at once.
const crowd = 36

// Unmodified clients behind `purser exec` buy from a seller that rotates its challenges before and after settling, and
// loses answers: each purchase has one answer, one credential and one debit.
func TestPurserInAStorm(t *testing.T) {
	t.Parallel()
	for _, c := range append(clients, curl) {
		for _, play := range []string{"storm", "both-storm"} {
			if !*all && c != clients[0] && (c == curl) != (play == "storm") {
				continue
			}
			t.Run(c.name+" "+play, func(t *testing.T) {
				t.Parallel()
				shop, address := openShop(t, mppshop.Options{})
				a := newAgent(t, env.sharedPurser(t))
				got := a.buy(t, c, times(crowd, named(t, address)+"/"+play))
				n, debits := shop.Count(""), env.debits(t, a.wallet)
				if answers(got) != crowd || debits != crowd || n.Distinct != crowd || n.Answers != crowd {
					t.Errorf("%d answers, %d debits, %+v\n%s", answers(got), debits, n, bad(got))
				}
				a.requireBooks(t, crowd)
			})
		}
	}
}

// A seller that settles and denies for ever gets each price once, and one that never settles gets nothing.
func TestPurserAtDeafAndDeadSellers(t *testing.T) {
	t.Parallel()
	for i, play := range []string{"deaf", "dead", "swap-deaf"} {
		t.Run(play, func(t *testing.T) {
			t.Parallel()
			shop, address := openShop(t, mppshop.Options{})
			a := newAgent(t, env.sharedPurser(t))
			n, paid := crowd/3, 0
			if *all {
				n = crowd
			}
			if play != "dead" {
				paid = n
			}
			purchases := times(n, named(t, address)+"/"+play)
			got := a.buy(t, clients[i%len(clients)], purchases)
			seen, debits := shop.Count(""), env.debits(t, a.wallet)
			if answers(got) != 0 || debits != paid || seen.Distinct != n || seen.Answers != 0 {
				t.Errorf("%d answers, %d debits, %+v\n%s", answers(got), debits, seen, bad(got))
			}
			a.requireBooks(t, paid)
			if paid == 0 {
				return
			}
			a.requireUndelivered(t)
			for _, p := range purchases[:3] {
				// Purser knows by now that the seller delivers nothing.
				if r := a.ask(t, p.url); r.Status == http.StatusOK {
					t.Errorf("%+v", r)
				}
			}
			if seen = shop.Count(""); seen.Distinct != n || seen.Settlements != n {
				t.Errorf("%+v", seen)
			}
		})
	}
}

// Purchases at one time get one challenge between them. Each is paid for with another one in the end.
func TestPurserMeetsTwins(t *testing.T) {
	t.Parallel()
	shop, address := openShop(t, mppshop.Options{})
	a := newAgent(t, env.sharedPurser(t))
	const n = 5
	got := a.buy(t, clients[0], times(n, named(t, address)+"/twins/300"))
	if count, debits := shop.Count(""), env.debits(t, a.wallet); answers(got) != n || debits != n || count.Distinct != n {
		t.Errorf("%d answers, %d debits, %+v\n%s", answers(got), debits, count, bad(got))
	}
	a.requireBooks(t, n)
}

// Official sellers, over HTTP and HTTPS.
func TestPurserPaysOfficialSellers(t *testing.T) {
	t.Parallel()
	for _, script := range []string{mppx, pympp} {
		t.Run(script, func(t *testing.T) {
			t.Parallel()
			s := env.seller(t, script)
			a := newAgent(t, env.sharedPurser(t))
			purchases := []purchase{
				{url: named(t, s.URL) + "/evm"},
				{url: named(t, s.URL) + "/both"},
				{url: named(t, s.TLS) + "/evm?n=2"},
				{named(t, s.URL) + "/evm?n=3", []byte("the body\x00\xff")},
			}
			c := clients[0]
			if script == mppx {
				c = clients[1]
			}
			got := a.buy(t, c, purchases)
			if debits := env.debits(t, a.wallet); answers(got) != len(purchases) || debits != len(purchases) {
				t.Errorf("%d debits\n%s", debits, bad(got))
			}
			a.requireBooks(t, len(purchases))
		})
	}
}

// The storms of the official seller.
func TestPurserInTheOfficialStorm(t *testing.T) {
	t.Parallel()
	s := env.seller(t, mppx)
	for _, path := range []string{"/evm/storm", "/both/storm", "/evm/deaf", "/evm/dead", "/evm/after/2", "/evm/twins"} {
		if !*all && path != "/both/storm" && path != "/evm/storm" {
			continue
		}
		t.Run(path[1:], func(t *testing.T) {
			t.Parallel()
			a := newAgent(t, env.sharedPurser(t))
			want, paid := crowd, crowd
			switch path {
			case "/evm/deaf":
				want = 0
			case "/evm/dead":
				want, paid = 0, 0
			case "/evm/twins":
				want, paid = 2, 2 // it has one id in a minute
			}
			got := a.buy(t, clients[0], times(max(want, paid, 1), named(t, s.URL)+path))
			if debits := env.debits(t, a.wallet); path != "/evm/twins" && (answers(got) != want || debits != paid) || debits < answers(got) {
				t.Errorf("%d answers, %d debits\n%s", answers(got), debits, bad(got))
			}
			a.requireBooks(t, env.debits(t, a.wallet))
		})
	}
}

// bad shows the results without an answer.
func bad(results []result) (text string) {
	for i, r := range results {
		if r.Status != 200 {
			text += fmt.Sprintf("%d: %+v\n", i, r)
		}
	}
	return text
}
