package dashboard_test

import (
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/purserpay/purser/internal/books"
	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/policy"
)

// asks makes a key ask for an approval of a payment.
func (w *world) asks(k pay.Key, at, micros string) pay.Approval {
	w.t.Helper()
	if k, err := w.books.Key(w.t.Context(), k.ID); err != nil {
		w.t.Fatal(err)
	} else if k.Policy == nil {
		pol := &policy.Policy{RequireApprovalAbove: policy.CapOf(money.New(500_000))}
		if _, err := w.books.SetPolicy(w.t.Context(), k.ID, pol); err != nil {
			w.t.Fatal(err)
		}
	}
	_, err := w.try(k, at, "nightly", micros)
	held, is := errors.AsType[*pay.ApprovalError](err)
	if !is || held.Approval.ID == "" {
		w.t.Fatalf("a payment of %s: %v", micros, err)
	}
	return held.Approval
}

func approvalPath(a pay.Approval) string { return "/dashboard/approvals/" + a.ID }

func (w *world) approval(a pay.Approval) pay.Approval {
	w.t.Helper()
	a, err := w.store.Approval(w.t.Context(), a.ID)
	if err != nil {
		w.t.Fatal(err)
	}
	return a
}

// A person reads the exact terms, and approves one payment of them. The next one waits again.
func TestAPaymentIsApproved(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ada := w.person("ada")
	ada.get("/dashboard/approvals").is(200, "No payment waits", "No approval was answered", `id="waiting-count" hidden`)
	w.wallet(ada.key, 50_000_000)
	const at = "https://api.example.com/report?q=1"
	held := w.asks(ada.key, at, "600000")
	ada.get("/dashboard/approvals").is(200, "Waiting for an answer", approvalPath(held), "api.example.com/report?q=1", "0<span class=\"frac\">.6</span>", "60 minutes", "nightly",
		`id="waiting-count">1<`)
	ada.get(approvalPath(held)).is(200, "Pay <span class=\"amount\">0.6 <span class=\"unit\">USDC</span></span>?", at, seller, usdc, "base", "through its facilitator",
		"0.60 USDC is above the 0.50 USDC", "approval-above", held.ID, "It expires in 60 minutes", "Approve this payment", "Approve and raise the limit", "exactly these terms",
		"over REST. purser does not call it").without("no room")
	ada.post(approvalPath(held), "answer", "approve").to("/dashboard/approvals")
	ada.get("/dashboard/approvals").is(200, "Payment approved.", "by you", "No payment waits")
	ada.get(approvalPath(held)).is(200, "It was approved by you on", "when the agent repeats its request").without("Approve this payment", `id="deny"`)
	paid := w.buy(ada.key, at, "nightly", "600000")
	ada.get(approvalPath(held)).is(200, "its payment began", "/dashboard/payments/"+paid.ID)
	if again := w.asks(ada.key, at, "600000"); again.ID == held.ID {
		t.Error("one approval allows two payments")
	}
	if other := w.asks(ada.key, at, "600001"); other.ID == held.ID {
		t.Error("another price needs no other approval")
	}
	entries, err := w.books.AuditIn(t.Context(), books.OfOperator(), pay.AuditQuery{KeyID: ada.key.ID, Limit: 1})
	if err != nil || len(entries) != 1 || entries[0].Action != pay.ActionApprovalApprove || entries[0].By.ID != ada.account.ID {
		t.Errorf("the audit: %+v, %v", entries, err)
	}
	ada.get("/dashboard/audit").is(200, "Payment approved")
}

// The agent reads the reason of a denial. Without a reason nothing is denied.
func TestAPaymentIsDenied(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ada := w.person("ada")
	w.wallet(ada.key, 50_000_000)
	held := w.asks(ada.key, "https://api.example.com/report", "600000")
	for _, reason := range []string{"", " ", "two\nlines", strings.Repeat("x", 201), "turned\u202earound"} {
		ada.post(approvalPath(held), "answer", "deny", "reason", reason).is(http.StatusUnprocessableEntity, `aria-invalid="true"`, "reason-wrong")
	}
	ada.post(approvalPath(held)).is(http.StatusBadRequest)
	ada.post(approvalPath(held), "answer", "maybe").is(http.StatusBadRequest)
	if got := w.approval(held); got.Answer != "" {
		t.Fatalf("%+v", got)
	}
	ada.post(approvalPath(held), "answer", "deny", "reason", "ask the <free> one").to("/dashboard/approvals")
	ada.get(approvalPath(held)).is(200, "denied by you", "ask the &lt;free&gt; one", "nothing was paid")
	_, err := w.try(ada.key, "https://api.example.com/report", "nightly", "600000")
	if denied, is := errors.AsType[*pay.ApprovalError](err); !is || denied.Rule() != "approval-denied" || !strings.Contains(denied.Detail(), "ask the <free> one") {
		t.Errorf("%v", err)
	}
}

// Raising needs more than approving: an approver's answer counts once.
func TestTheLimitIsRaised(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ada := w.person("ada")
	w.wallet(ada.key, 50_000_000)
	held := w.asks(ada.key, "https://api.example.com/report", "600000")
	bob := w.person("bob").as("approver")
	bob.get(approvalPath(held)).is(200, "Approve this payment").without(`value="raise"`)
	bob.post(approvalPath(held), "answer", "raise").is(http.StatusForbidden, "Your role does not allow this")
	if got := w.approval(held); got.Answer != "" {
		t.Fatalf("a raise that is refused approves: %+v", got)
	}
	viewer := w.person("eve").as("viewer")
	viewer.get(approvalPath(held)).is(200).without("Approve this payment", `id="deny"`)
	viewer.post(approvalPath(held), "answer", "approve").is(http.StatusForbidden, "Only an approver")
	ada.post(approvalPath(held), "answer", "raise").to("/dashboard/approvals")
	ada.get("/dashboard/approvals").is(200, "the limit raised")
	k, err := w.books.Key(t.Context(), ada.key.ID)
	if err != nil || k.Policy.RequireApprovalAbove.String() != "600000" {
		t.Fatalf("%+v, %v", k.Policy, err)
	}
	w.buy(ada.key, "https://api.example.com/next", "nightly", "600000")
	above := w.asks(ada.key, "https://api.example.com/report", "600001")
	if _, err := w.books.SetPolicy(t.Context(), k.ID, &policy.Policy{RequireApprovalAbove: policy.NoCap()}); err != nil {
		t.Fatal(err)
	}
	ada.get(approvalPath(above)).is(200, "Approve this payment").without(`value="raise"`)
	ada.post(approvalPath(above), "answer", "raise").is(http.StatusSeeOther)
	ada.get("/dashboard/approvals").is(200, "There was no limit to raise")
	if k, _ := w.books.Key(t.Context(), ada.key.ID); k.Policy.RequireApprovalAbove.String() != "off" {
		t.Errorf("a limit that is off was set: %+v", k.Policy)
	}
}

// If two people answer at once, the second sees what the first did.
func TestTwoPeopleAnswer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ada := w.person("ada")
	w.wallet(ada.key, 50_000_000)
	held := w.asks(ada.key, "https://api.example.com/report", "600000")
	bob, op := w.person("bob").as("approver"), w.operates()
	page := op.get(approvalPath(held)).is(200, "Approve this payment")
	bob.post(approvalPath(held), "answer", "deny", "reason", "too dear").is(http.StatusSeeOther)
	op.post(approvalPath(held), "answer", "approve").is(http.StatusConflict, "another person has answered first", "denied by", "too dear").without("Approve this payment")
	ada.get(approvalPath(held)).is(200, "denied by account ")
	// The page that the operator has open reloads itself.
	if got := op.get(pollOf(page), "HX-Request", "true"); got.status != http.StatusNoContent || got.header.Get("HX-Refresh") != "true" {
		t.Errorf("%d %v", got.status, got.header)
	}
	if got := w.approval(held); got.Answer != pay.Denied {
		t.Errorf("%+v", got)
	}
}

var pollPath = regexp.MustCompile(`hx-get="([^"]+)"`)

// pollOf returns the path that a page polls.
func pollOf(s seen) string {
	s.t.Helper()
	found := pollPath.FindStringSubmatch(s.body)
	if found == nil {
		s.t.Fatalf("the page polls nothing: %s", s.brief())
	}
	return strings.ReplaceAll(found[1], "&amp;", "&")
}

// A page that is open while the time runs out says so. An answer after that changes nothing.
func TestAnApprovalExpiresWhileItsPageIsOpen(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ada := w.person("ada")
	w.wallet(ada.key, 50_000_000)
	held := w.asks(ada.key, "https://api.example.com/report", "600000")
	open := ada.get(approvalPath(held)).is(200, "It expires in 60 minutes")
	if got := ada.get(pollOf(open), "HX-Request", "true"); got.status != http.StatusNoContent || got.header.Get("HX-Refresh") != "" {
		t.Errorf("with nothing new: %d", got.status)
	}
	w.clock.advance(30 * time.Minute)
	ada.get(pollOf(open), "HX-Request", "true").is(200, "It expires in 30 minutes").without("<html", "Approve this payment")
	w.clock.advance(31 * time.Minute)
	if got := ada.get(pollOf(open), "HX-Request", "true"); got.header.Get("HX-Refresh") != "true" {
		t.Errorf("once it has expired: %d %v", got.status, got.header)
	}
	ada.auth = w.clock.now()
	ada.post(approvalPath(held), "answer", "approve").is(http.StatusConflict, "Your answer came too late", "No person answered before", "Nothing was paid")
	ada.get("/dashboard/approvals?state=expired").is(200, approvalPath(held))
	ada.get("/dashboard/approvals").is(200, "No payment waits", approvalPath(held))
	if again := w.asks(ada.key, "https://api.example.com/report", "600000"); again.ID == held.ID {
		t.Error("an expired approval is asked about again")
	}
}

// An answer needs a sign-in of the last fifteen minutes, and one comes back to the page.
func TestAnAnswerNeedsAFreshSession(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ada := w.person("ada")
	w.wallet(ada.key, 50_000_000)
	held := w.asks(ada.key, "https://api.example.com/report", "600000")
	ada.auth = w.clock.now().Add(-20 * time.Minute)
	ada.get(approvalPath(held)).is(200, "You will be asked to sign in again first")
	got := ada.post(approvalPath(held), "answer", "approve").is(http.StatusSeeOther)
	if to := got.header.Get("Location"); to != "/dashboard/sign-in?again=1&return=%2Fdashboard%2Fapprovals%2F"+held.ID {
		t.Error(to)
	}
	if got := w.approval(held); got.Answer != "" {
		t.Errorf("%+v", got)
	}
}

// An owner does not approve payments with the operator's money.
func TestPaymentsWithTheOperatorsMoney(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ada := w.person("ada")
	k, err := w.books.AdoptKey(t.Context(), ada.key)
	if err != nil {
		t.Fatal(err)
	}
	w.wallet(k, 50_000_000)
	held := w.asks(k, "https://api.example.com/report", "600000")
	ada.get(approvalPath(held)).is(200, "Only an operator approves its payments", `id="deny"`).without("Approve this payment")
	ada.post(approvalPath(held), "answer", "approve").is(http.StatusForbidden, "Only an operator permits more")
	if got := w.approval(held); got.Answer != "" {
		t.Fatalf("%+v", got)
	}
	w.operates().post(approvalPath(held), "answer", "approve").is(http.StatusSeeOther)
	ada.get(approvalPath(held)).is(200, "approved by the operator on")
}

// An approval overrides no budget, and the page says so before.
func TestABudgetWithoutRoom(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ada := w.person("ada")
	w.wallet(ada.key, 50_000_000)
	pol := &policy.Policy{RequireApprovalAbove: policy.CapOf(money.New(500_000)), DailyBudget: policy.CapOf(money.New(1_000_000))}
	if _, err := w.books.SetPolicy(t.Context(), ada.key.ID, pol); err != nil {
		t.Fatal(err)
	}
	held := w.asks(ada.key, "https://api.example.com/report", "600000")
	ada.get(approvalPath(held)).is(200, "1.00 USDC left").without("no room")
	w.buy(ada.key, "https://api.example.com/a", "", "450000")
	ada.get(approvalPath(held)).is(200, "The daily budget of the key has no room for this payment", "0.55 USDC left")
}

// The list has a tab for each state, pages, and news without a reload.
func TestTheListOfApprovals(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ada := w.person("ada")
	w.wallet(ada.key, 50_000_000)
	page := ada.get("/dashboard/approvals")
	if got := ada.get(pollOf(page), "HX-Request", "true"); got.status != http.StatusNoContent {
		t.Errorf("with nothing new: %d", got.status)
	}
	first := w.asks(ada.key, "https://api.example.com/0", "600000")
	news := ada.get(pollOf(page), "HX-Request", "true").is(200, approvalPath(first), "A payment waits for approval: 0.6 USDC to api.example.com/0",
		`<span class="count" id="waiting-count" hx-swap-oob="true">1<`).without("<html")
	if got := ada.get(pollOf(news), "HX-Request", "true"); got.status != http.StatusNoContent {
		t.Errorf("after the news: %d", got.status)
	}
	for i := range 99 {
		w.asks(ada.key, fmt.Sprintf("https://api.example.com/%d", i+1), "600000")
	}
	ada.get("/dashboard/").is(200, `id="waiting-count">99&#43;<`)
	if _, err := w.try(ada.key, "https://api.example.com/more", "", "600000"); err == nil || !strings.Contains(err.Error(), "wait for an approval already") {
		t.Errorf("the payment behind the bound: %v", err)
	}
	w.clock.advance(2 * time.Hour)
	seen := map[string]bool{}
	pages := 0
	for path := "/dashboard/approvals?state=expired"; path != ""; pages++ {
		body := ada.get(path).is(200).body
		for _, id := range regexp.MustCompile(`/dashboard/approvals/([0-9a-f-]{36})`).FindAllString(body, -1) {
			seen[id] = true
		}
		path = ""
		if next := regexp.MustCompile(`href="([^"]+)" rel="next"`).FindStringSubmatch(body); next != nil {
			path = strings.ReplaceAll(next[1], "&amp;", "&")
		}
	}
	if len(seen) != 100 || pages != 2 {
		t.Errorf("%d approvals on %d pages", len(seen), pages)
	}
	for _, state := range []string{"pending", "approved", "denied", "used"} {
		ada.get("/dashboard/approvals?state=" + state).is(200).without("/dashboard/approvals/0")
	}
	for _, bad := range []string{"state=paid", "before=x", "before=" + nobodys} {
		ada.get("/dashboard/approvals?" + bad).is(http.StatusNotFound)
	}
}
