package dashboard

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/purserpay/purser/dashboard/session"
	"github.com/purserpay/purser/internal/books"
	"github.com/purserpay/purser/internal/words"
	"github.com/purserpay/purser/limits"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/policy"
)

// approvalTerms holds what a person agrees to.
type approvalTerms struct {
	ID, Method, PayTo, Network, Protocol, Asset, Scheme, Settlement string
	KeyName, KeyPath                                                string // KeyPath is "" where pages are not to be reached
	Task, Rule, Detail                                              string
	Claimed                                                         bool // the caller names the host, and purser does not dial it
	Amount                                                          amount
	Site                                                            site
	Asked, Expires                                                  moment
}

// approvalStatus says what has become of an approval.
type approvalStatus struct {
	State       state
	Story       string
	PaymentPath string
	Poll        string `json:"-"`
}

type approvalPage struct {
	approvalTerms
	Status         approvalStatus
	Path           string
	Waits          bool
	May            permits
	OthersMoney    bool   // only an operator approves it
	Late           string // why an answer came too late
	Wrong          *wrong
	Typed          string
	Raise, RaiseTo string // the limit now and then; "": there is nothing to raise
	Bars           []budgetBar
	Over           string // the budget that has no room for it
}

// ofApproval finds the approval in a path for a view.
func (d *dashboard) ofApproval(serve func(*http.Request, visit, pay.Approval) (answer, error)) view {
	return func(r *http.Request, v visit) (answer, error) {
		id, err := pathID(r)
		if err != nil {
			return answer{}, err
		}
		a, err := d.Books.ApprovalIn(r.Context(), v.scope(), id)
		if err != nil {
			return answer{}, err
		}
		return serve(r, v, a)
	}
}

func (d *dashboard) desk() books.Desk { return books.Desk{Payer: d.Payer, Books: d.Books} }

// approval serves GET /dashboard/approvals/{id}. The page polls it with ?seen= and the state that it
// shows, and is reloaded when that has changed.
func (d *dashboard) approval(r *http.Request, v visit, a pay.Approval) (answer, error) {
	if r.Header.Get("HX-Request") == "true" {
		s := d.statusOf(r.Context(), v, a)
		switch q := r.URL.Query(); {
		case q.Get("state") != string(a.State(v.now)):
			return answer{refresh: true}, nil
		case q.Get("seen") == fingerprintOf(s, v):
			return answer{status: http.StatusNoContent}, nil
		}
		return answer{page: "approval", part: "approval-status", body: s}, nil
	}
	return d.approvalWith(r.Context(), v, a, approvalPage{}, http.StatusOK)
}

func (d *dashboard) approvalWith(ctx context.Context, v visit, a pay.Approval, p approvalPage, status int) (answer, error) {
	k, err := d.Books.KeyIn(ctx, v.scope(), a.KeyID)
	if err != nil {
		return answer{}, err
	}
	p.approvalTerms = termsOf(a, k)
	p.KeyPath = keyPath(k.ID)
	p.Path, p.May, p.Status, p.Waits = approvalPath(a.ID), v.permits(), d.statusOf(ctx, v, a), a.State(v.now) == pay.ApprovalPending
	if p.Waits {
		if p.OthersMoney, err = d.othersMoney(ctx, v, k); err != nil {
			return answer{}, err
		}
		if most := d.desk().Raisable(k, a); most != nil && p.May.Change && !p.OthersMoney {
			p.Raise, p.RaiseTo = amountOf(*most, false, currency).String(), p.Amount.String()
		}
		if p.Bars, err = d.barsOf(ctx, v, k); err != nil {
			return answer{}, err
		}
		if p.Over, err = d.over(ctx, k, a); err != nil {
			return answer{}, err
		}
	}
	title := "Payment of " + p.Amount.String()
	return answer{status: status, page: "approval", title: title, nav: approvalsPath, body: p, htmx: true}, nil
}

func termsOf(a pay.Approval, k pay.Key) approvalTerms {
	t := approvalTerms{
		ID: a.ID, Method: cut(a.Method, 12), PayTo: a.Terms.PayTo.String(), Network: a.Terms.Network, Protocol: pay.Means{Protocol: a.Terms.Protocol()}.Spoken(), Asset: a.Terms.Asset.String(), Scheme: cut(a.Terms.Scheme, maxName),
		Settlement: "the seller, when it gets the payload", KeyName: label(k), Task: cut(a.Task, maxTitle), Rule: a.Rule,
		Detail: cut(a.Detail, 500), Claimed: a.Door == policy.DoorAPI, Amount: amountOf(a.Terms.Amount, false, cut(a.Currency, 12)), Site: whole(a.URL),
		Asked: momentOf(a.Created, inText), Expires: momentOf(a.Expires, inText),
	}
	if a.Terms.Settlement == pay.SettlePayer {
		t.Settlement = "purser, through its facilitator"
	}
	if t.Detail != "" {
		t.Detail = strings.ToUpper(t.Detail[:1]) + t.Detail[1:]
	}
	return t
}

// statusOf says what has become of an approval, and who answered it.
func (d *dashboard) statusOf(ctx context.Context, v visit, a pay.Approval) approvalStatus {
	s := approvalStatus{State: approvalStateOf(a, v.now), Story: approvalStory(a, v.now, d.answeredBy(ctx, v, a.By))}
	if a.PaymentID != "" {
		s.PaymentPath = "/dashboard/payments/" + a.PaymentID
	}
	if a.State(v.now) == pay.ApprovalPending || a.State(v.now) == pay.ApprovalApproved {
		s.Poll = approvalPath(a.ID) + "?state=" + string(a.State(v.now)) + "&seen=" + fingerprintOf(s, v)
	}
	return s
}

// answeredBy names the person who answered. Operators see the name of an account.
func (d *dashboard) answeredBy(ctx context.Context, v visit, by pay.Actor) string {
	if v.operator() && by.Kind == pay.ActorAccount {
		if account, err := d.Books.Account(ctx, by.ID); err == nil {
			return nameOf(account)
		}
	}
	if v.operator() {
		return "the " + byOf(v, by)
	}
	return byOf(v, by)
}

func approvalStory(a pay.Approval, now time.Time, by string) string {
	at := ""
	if a.Answer != "" {
		at = " on " + momentOf(a.Answered, inText).Text
	}
	switch a.State(now) {
	case pay.ApprovalPending:
		return "It waits for an answer. It expires in " + timeLeft(a.Expires, now) + ", and nothing is paid until then."
	case pay.ApprovalApproved:
		return "It was approved by " + by + at + ". purser makes the payment when the agent repeats its request, within " + timeLeft(a.Expires, now) + "."
	case pay.ApprovalDenied:
		said := ""
		if a.Reason != "" {
			said = " The reason: " + words.Quote(words.Of(a.Reason)) + "."
		}
		return "It was denied by " + by + at + ", and nothing was paid." + said
	case pay.ApprovalExpired:
		if a.Answer == pay.Approved {
			return "It was approved by " + by + at + ", and the agent did not come back in time. Nothing was paid."
		}
		return "No person answered before " + momentOf(a.Expires, inText).Text + ". Nothing was paid. If the agent asks again, its request appears here anew."
	case pay.ApprovalUsed:
	}
	return "It was approved by " + by + at + ", and its payment began on " + momentOf(a.Used, inText).Text + "."
}

// over names the budget of a key that has no room for a payment: an approval overrides no budget.
func (d *dashboard) over(ctx context.Context, k pay.Key, a pay.Approval) (string, error) {
	list, _, err := limits.Budgets(ctx, d.Payer, k, a.Door)
	if err != nil {
		return "", err
	}
	for _, b := range list {
		if b.Budget != nil && a.Terms.Amount.Cmp(b.Budget.SubSaturated(b.Used)) > 0 {
			return b.Period.Word(), nil
		}
	}
	return "", nil
}

// othersMoney reports whether only an operator approves payments of a key: see mayRaise. To approve one
// payment above a limit is to raise the limit once.
func (d *dashboard) othersMoney(ctx context.Context, v visit, k pay.Key) (bool, error) {
	err := d.mayRaise(ctx, v, k)
	if errors.Is(err, errOthersMoney) {
		return true, nil
	}
	return false, err
}

// approvalAnswers lists the values of the buttons, with their answers.
var approvalAnswers = map[string]pay.ApprovalAnswer{"approve": pay.Approved, "raise": pay.Approved, "deny": pay.Denied}

// answerApproval serves POST /dashboard/approvals/{id}.
func (d *dashboard) answerApproval(r *http.Request, v visit, a pay.Approval) (answer, error) {
	do := r.PostForm.Get("answer")
	q := pay.ApprovalAnswering{ID: a.ID, Answer: approvalAnswers[do], At: v.now}
	k, err := d.Books.KeyIn(r.Context(), v.scope(), a.KeyID)
	if err != nil {
		return answer{}, err
	}
	switch q.Answer {
	case pay.Denied:
		q.Reason = strings.TrimSpace(r.PostForm.Get("reason"))
		if wrong := wrongReason(q.Reason); wrong != nil {
			return d.approvalWith(r.Context(), v, a, approvalPage{Wrong: wrong, Typed: cut(q.Reason, maxTitle)}, http.StatusUnprocessableEntity)
		}
	case pay.Approved:
		if do == "raise" && !v.May(session.Change) {
			return answer{}, &forbiddenError{session.Change}
		}
		if others, err := d.othersMoney(r.Context(), v, k); err != nil {
			return answer{}, err
		} else if others {
			return answer{}, errOthersMoney
		}
	default:
		return answer{}, errForm
	}
	done, err := d.desk().Answer(r.Context(), q, do == "raise")
	if errors.Is(err, pay.ErrApprovalClosed) {
		if a, err = d.Books.ApprovalIn(r.Context(), v.scope(), a.ID); err != nil {
			return answer{}, err
		}
		return d.approvalWith(r.Context(), v, a, approvalPage{Late: lateText(a)}, http.StatusConflict)
	}
	if err != nil {
		return answer{}, err
	}
	return answer{redirect: approvalsPath, say: saidOf(do, done)}, nil
}

// wrongReason finds what is wrong with the reason of a denial.
func wrongReason(reason string) *wrong {
	if reason == "" {
		return &wrong{Field: "reason", Text: "Say why in a few words: the agent reads it."}
	}
	if len([]rune(reason)) > maxReason || strings.ContainsAny(reason, "\r\n") || cut(reason, maxReason) != reason {
		return &wrong{Field: "reason", Text: "At most 200 characters on one line, and all of them visible."}
	}
	return nil
}

// maxReason bounds a reason, in characters, as package pay does.
const maxReason = 200

// lateText tells a person whose answer changed nothing why.
func lateText(a pay.Approval) string {
	if a.Answer == "" {
		return "Your answer came too late: the time for it was over. It changed nothing, and nothing was paid."
	}
	return "Your answer changed nothing: another person has answered first."
}

func saidOf(do string, done books.Answered) said {
	switch {
	case do == "deny":
		return saidDenied
	case do != "raise":
		return saidApproved
	case done.Raised != nil:
		return saidApprovedRaised
	case done.Failed:
		return saidRaiseFailed
	}
	return saidNothingToRaise
}
