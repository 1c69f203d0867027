package pay_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/purserpay/purser/limits"
	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/policy"
	"github.com/purserpay/purser/x402"
)

func totalOf(amount uint64, until string, restart bool) policy.Budget {
	total := &policy.Total{Amount: money.New(amount), Restart: restart}
	if until != "" {
		total.Until = must(time.Parse(time.RFC3339, until))
	}
	return policy.Budget{Total: total}
}

// A total counts over days, for its task alone, until it begins anew. A task ends with the last nanosecond before its end.
func TestTotals(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	nightly := func(restart bool) policy.Policy {
		return policy.Policy{Tasks: map[string]policy.Budget{"nightly": totalOf(10, "2026-12-02T18:00:00Z", restart), "*": totalOf(7, "", false)}}
	}
	w.at("2026-11-30T12:00:30Z")
	w.spends(buy{task: "nightly", amount: 9}, "") // before there is a total
	w.set(nightly(false))
	w.spends(buy{task: "nightly", amount: 6}, "")
	w.spends(buy{task: "nightly", amount: 5}, "task-total")
	w.spends(buy{amount: 3}, "")
	w.spends(buy{task: "made-up", amount: 4}, "")
	w.spends(buy{task: "made-up", amount: 1}, "task-total")
	w.at("2026-12-01T09:00:00Z")
	w.spends(buy{task: "nightly", amount: 4}, "")
	_, err := w.open(buy{door: policy.DoorAPI, task: "nightly", amount: 1})
	if rule(err) != "task-total" || !strings.Contains(err.Error(), "0.000001 USDC would pass the total of 0.00001 USDC for task nightly since 30 November 2026, 12:00 UTC; 0.00 left") {
		t.Fatal(err)
	}
	w.set(nightly(false)) // changes nothing
	w.spends(buy{task: "nightly", amount: 1}, "task-total")
	w.set(nightly(true))
	w.at("2026-12-02T17:59:59.999999999Z")
	w.spends(buy{task: "nightly", amount: 3}, "")
	used := must(limits.Totals(context.Background(), w.payer, w.key))
	if len(used) != 2 || used[1].Of != "nightly" || used[1].Spent.String() != "3" || used[1].Left.String() != "7" || used[0].Left.String() != "0" {
		t.Fatalf("%+v", used)
	}
	w.at("2026-12-02T18:00:00Z")
	for _, door := range allDoors {
		w.spends(buy{door: door, task: "nightly", amount: 1}, "task-ended")
	}
	w.quiet()
	w.checkBooks()
}

// An outcome that comes late changes the count in which the payment began, also after the total began anew.
func TestTotalsOfLateOutcomes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.at("2026-11-30T12:00:00Z")
	set := func(restart bool) {
		w.set(policy.Policy{Tasks: map[string]policy.Budget{"nightly": totalOf(10, "2026-11-30T12:10:00Z", restart)}})
	}
	count := func(begin string) string {
		return w.counter(pay.Counter("task-total/" + w.key.ID + "/nightly/USDC/" + begin))
	}
	set(false)
	open := func(amount uint64) *pay.Attempt {
		return must(w.payer.Open(context.Background(), w.request(buy{
			door: policy.DoorProxy, url: fmt.Sprint("https://api.example.com/", amount), task: "nightly", amount: amount,
		})))
	}
	settled, abandoned := open(4), open(5)
	tx := w.sellerMoves(settled.Payload())
	w.at("2026-11-30T12:01:00Z")
	set(true)
	later := open(7)
	w.at("2026-11-30T12:11:00Z") // the task has ended
	settled.Receipt(x402.Receipt{Success: true, Network: "base", Transaction: tx})
	settled.Finish(true)
	abandoned.Abandon("no connection")
	later.Abandon("no connection")
	w.quiet()
	w.chain.advance(time.Hour)
	w.recoverAll()
	if was, now := count("2026-11-30T12:00"), count("2026-11-30T12:01"); was != "4" || now != "0" {
		t.Fatalf("%s in the count before, %s in the present one", was, now)
	}
	w.checkBooks()
}

// The defaults of a deployment have no totals: they would begin anew with each start.
func TestNoTotalsInDefaults(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	o := w.payer.Options()
	o.DefaultPolicy.Tasks = map[string]policy.Budget{"nightly": totalOf(10, "", false)}
	if _, err := pay.New(o); err == nil {
		t.Fatal("taken")
	}
}
