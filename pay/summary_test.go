package pay_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/purserpay/purser/internal/books"
	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
)

// member makes a key of an organization with a wallet.
func (w *world) member(org string) pay.Key {
	w.t.Helper()
	k, _, err := w.books.CreateKey(context.Background(), books.KeyRequest{OrganizationID: org})
	if err != nil {
		w.t.Fatal(err)
	}
	must(w.books.CreateWallet(context.Background(), k, "base"))
	return k
}

// buys pays with a key.
func (w *world) buys(k pay.Key, url, amount string) string {
	w.t.Helper()
	r := w.rest(pay.SettlePayer, url, amount, "")
	r.Key = k
	return w.mustPay(r).ID
}

// An event's id begins with its time by the payer's clock, also when that is put back, and
// ids of one time are in order.
func TestEventIDsFollowTheClock(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	k := w.member("ours")
	last := ""
	for i, step := range []time.Duration{0, 0, 0, time.Millisecond, time.Hour, -time.Millisecond, 0, 24 * time.Hour, -3 * time.Hour} {
		w.chain.advance(step)
		w.buys(k, fmt.Sprintf("https://api.example.com/r?n=%d", i), "1000")
		events, _, err := w.books.Spend(t.Context(), k, pay.SpendQuery{Limit: 1})
		if err != nil {
			t.Fatal(err)
		}
		id, err := uuid.Parse(events[0].ID)
		if err != nil || id.Version() != 7 || id.Variant() != uuid.RFC4122 {
			t.Fatalf("id %s, %v", events[0].ID, err)
		}
		at := time.Unix(id.Time().UnixTime())
		if off := at.Sub(events[0].Created).Abs(); off > time.Second {
			t.Errorf("id %s is %s off %s", id, off, events[0].Created)
		}
		if step > -time.Second && events[0].ID <= last {
			t.Errorf("id %s comes after %s", id, last)
		}
		last = events[0].ID
	}
}

// A tally of very many names stays small, and loses nothing.
func TestTallyIsBounded(t *testing.T) {
	t.Parallel()
	day := pay.DayOf(time.Now())
	tally := pay.NewTally(day, day)
	const many = 50_000
	for i := range uint64(many) {
		one := pay.Sum{Count: 1, Amount: money.New(i)}
		tally.Day(day, one)
		tally.Host(fmt.Appendf(nil, "%d", i), one)
		tally.Task([]byte("t"), one)
	}
	tally.Day(day.AddDate(0, 0, 1), pay.Sum{Count: 1}) // not asked for
	tally.Day(day.AddDate(0, 0, -1), pay.Sum{Count: 1})
	s := tally.Summary()
	var hosts pay.Sum
	for _, h := range s.Hosts {
		hosts.Add(h.Sum)
	}
	if len(s.Hosts) != pay.MaxNames+1 || hosts != s.Total() || hosts.Count != many || s.Tasks[0].Sum != hosts {
		t.Errorf("%d hosts with %+v of %+v", len(s.Hosts), hosts, s.Total())
	}
	if !slices.IsSortedFunc(s.Hosts[:pay.MaxNames], func(a, b pay.NameSum) int { return b.Amount.Cmp(a.Amount) }) {
		t.Error("the hosts are not in order")
	}
}
