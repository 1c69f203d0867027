package adminapi_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/purserpay/purser/internal/adminapi"
	"github.com/purserpay/purser/pay"
)

// asks makes a key ask for an approval of a payment, and returns it.
func (w *world) asks(k pay.Key, amount int, url string) pay.Approval {
	w.t.Helper()
	_, err := w.pays(k, pay.SettlePayer, "nightly", amount, url)
	held, is := errors.AsType[*pay.ApprovalError](err)
	if !is || held.Approval.ID == "" {
		w.t.Fatalf("a payment of %d: %v", amount, err)
	}
	return held.Approval
}

func TestApprovals(t *testing.T) {
	w := newWorld(t)
	k := w.key("research")
	w.run("limits " + k.ID + " --require-approval-above 0.5")
	w.run("approvals", "APPROVAL ASKED (UTC) STATE USDC HOST KEY TASK EXPIRES (UTC)\n")
	first := w.asks(k, 600_000, "https://api.example.com/report")
	w.run("approvals", first.ID, " pending 0.6 api.example.com research nightly ")
	w.run("approvals show "+first.ID, "approval "+first.ID, "state pending\n", "amount 0.6 USDC on base", "to 0x1111", "for https://api.example.com/report",
		"asset 0x8335", "settled by purser's facilitator", "research", "held by approval-above: 0.6", "purser approvals approve "+first.ID)
	if a := ran[adminapi.Approval](w, "approvals show "+first.ID); a.Amount != "600000" || a.State != pay.ApprovalPending || a.KeyLabel != "research" || !a.Expires.After(a.Created) {
		t.Errorf("%+v", a)
	}

	// Approved, the same request is paid, once.
	w.run("approvals approve "+first.ID, "state approved by the operator", "!limit")
	a, err := w.pays(k, pay.SettlePayer, "nightly", 600_000, "https://api.example.com/report")
	w.must(err)
	w.run("approvals show "+first.ID, "state used, approved by the operator", "payment "+a.Payment().ID)
	w.run("approvals", "!"+first.ID)
	w.run("approvals list --state all --key research", first.ID)

	// Denied, the agent reads the reason.
	second := w.asks(k, 700_000, "https://api.example.com/other")
	o := w.command("approvals deny " + second.ID)
	if o.Status != 1 || !strings.Contains(o.Stderr, "--reason") {
		t.Errorf("%+v", o)
	}
	w.run("approvals deny "+second.ID+" --reason too-dear", "state denied by the operator", "reason too-dear")
	_, err = w.pays(k, pay.SettlePayer, "nightly", 700_000, "https://api.example.com/other")
	if denied, is := errors.AsType[*pay.ApprovalError](err); !is || denied.Rule() != "approval-denied" || !strings.Contains(denied.Detail(), "too-dear") {
		t.Errorf("%v", err)
	}
	w.run("approvals approve "+first.ID, "state used") // the same answer again changes nothing
	w.fails(map[string]string{
		"approvals deny " + first.ID + " --reason late": "the payment was approved by the operator",
		"approvals approve " + second.ID:                "the payment was denied by the operator",
		"approvals show nothing":                        `no approval has the id "nothing"`,
		"approvals list --state settled":                "state: one of pending, approved, denied, expired, used",
		"approvals list --key nobody":                   "no key has",
	})
}

// A raised limit lets the next payment of this price pass without a question, and not one above it.
func TestApprovalRaisesTheLimit(t *testing.T) {
	w := newWorld(t)
	k := w.key("research")
	w.run("limits " + k.ID + " --require-approval-above 0.5 --daily-budget 8")
	held := w.asks(k, 600_000, "https://api.example.com/report")
	w.run("approvals approve "+held.ID+" --raise-limit", "limit raised: this key needs an approval above 0.6 USDC")
	w.run("limits "+k.ID, "daily budget 8 8") // the others are as they were
	w.buys(k, 600_000, "https://api.example.com/another")
	above := w.asks(k, 600_001, "https://api.example.com/third")
	w.run("limits " + k.ID + " --require-approval-above 1")
	w.run("approvals approve "+above.ID+" --raise-limit", "state approved", "limit not raised: there is nothing to raise")
	audit := get[adminapi.Audit](w, "/audit?limit=10")
	var said []string
	for _, e := range audit.Audit {
		said = append(said, string(e.Action))
	}
	if got := strings.Join(said, " "); !strings.HasPrefix(got, "approval.approve key.policy key.policy approval.approve ") {
		t.Errorf("the audit: %s", got)
	}

	// For a host that was never paid there is nothing to raise.
	w.run("limits " + k.ID + " --require-approval-new-hosts on")
	host := w.asks(k, 10_000, "https://new.example.com/")
	w.run("approvals approve "+host.ID+" --raise-limit", "limit not raised: there is nothing to raise: once this payment is made")
}

// Ids may be given by their beginnings. A beginning that fits several finds none.
func TestApprovalsByTheBeginningOfTheirIDs(t *testing.T) {
	w := newWorld(t)
	k := w.key("research")
	w.run("limits " + k.ID + " --require-approval-above 0")
	one, two := w.asks(k, 1, "https://api.example.com/1"), w.asks(k, 2, "https://api.example.com/2")
	w.run("approvals show "+two.ID[:35], "state pending")
	w.fails(map[string]string{
		"approvals approve " + one.ID[:8]: "fits several approvals",
		"approvals approve " + one.ID[:7]: "no approval has the id",
	})
	page := get[adminapi.Approvals](w, "/approvals?limit=1")
	if len(page.Approvals) != 1 || page.Approvals[0].ID != two.ID || page.Next != two.ID {
		t.Errorf("%+v", page)
	}
	if page = get[adminapi.Approvals](w, "/approvals?limit=1&before="+page.Next); len(page.Approvals) != 1 || page.Approvals[0].ID != one.ID || page.Next != "" {
		t.Errorf("%+v", page)
	}
	w.answers(
		request{"POST", "/approvals/" + one.ID, `{"answer":"denied","raise_limit":true}`, 400, "raise_limit"},
		request{"POST", "/approvals/" + one.ID, `{"answer":"maybe"}`, 400, "approved or denied"},
		request{"POST", "/approvals/" + one.ID, `{"answer":"approved","for":"ever"}`, 400, "for"},
		request{"POST", "/approvals/" + one.ID, `{"answer":"denied","reason":"a\nb"}`, 400, "one line"},
		request{"GET", "/approvals?before=x", "", 404, "approval not found"},
	)
	w.behind.Store(int64(-2 * time.Hour)) // its clock is ahead
	w.fails(map[string]string{"approvals approve " + one.ID: "the approval has expired at "})
	w.run("approvals show "+one.ID, "state expired")
}
