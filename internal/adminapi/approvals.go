package adminapi

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/purserpay/purser/internal/books"
	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/policy"
)

// ApprovalStates lists what approvals can be asked for by.
var ApprovalStates = []string{
	string(pay.ApprovalPending), string(pay.ApprovalApproved), string(pay.ApprovalDenied), string(pay.ApprovalExpired), string(pay.ApprovalUsed),
}

// Approval is a question to a person: may the key make this one payment?
type Approval struct {
	ID           string            `json:"id"`
	State        pay.ApprovalState `json:"state"`
	KeyID        string            `json:"key_id"`
	KeyLabel     string            `json:"key_label,omitempty"`
	Organization string            `json:"organization_id,omitempty"`
	Door         policy.Door       `json:"door"`
	Task         string            `json:"task,omitempty"`
	Method       string            `json:"method,omitempty"`
	Host         string            `json:"host,omitempty"`
	URL          string            `json:"url,omitempty"`
	// The exact terms. Amount is in the smallest unit.
	Settlement pay.Settlement `json:"settlement"`
	Network    string         `json:"network"`
	Protocol   string         `json:"protocol"`
	Scheme     string         `json:"scheme"`
	Asset      string         `json:"asset"`
	PayTo      string         `json:"pay_to"`
	Amount     string         `json:"amount"`
	Currency   string         `json:"currency"`
	// Rule holds the payment, for a reason that Detail tells.
	Rule    string    `json:"rule"`
	Detail  string    `json:"detail"`
	Created time.Time `json:"created_at"`
	Expires time.Time `json:"expires_at"`

	Answer    pay.ApprovalAnswer `json:"answer,omitempty"`
	Answered  time.Time          `json:"answered_at,omitzero"`
	By        string             `json:"by,omitempty"`
	Reason    string             `json:"reason,omitempty"`
	PaymentID string             `json:"payment_id,omitempty"`
	Used      time.Time          `json:"used_at,omitzero"`
}

// Approvals is a page of approvals, newest first; of pending ones, the soonest to expire first.
type Approvals struct {
	Approvals []Approval `json:"approvals"`
	Next      string     `json:"next,omitempty"`
}

// NewAnswer is the body of POST /purser/approvals/{id}.
type NewAnswer struct {
	Answer pay.ApprovalAnswer `json:"answer"`
	Reason string             `json:"reason,omitempty"` // callers are told
	// RaiseLimit also lets the key pay as much without an approval from now on.
	RaiseLimit bool `json:"raise_limit,omitempty"`
}

// AnsweredApproval tells what an answer did.
type AnsweredApproval struct {
	Approval
	// Raised is the limit above which the key needs an approval from now on; "": it was not raised.
	Raised    string `json:"raised,omitempty"`
	NotRaised string `json:"not_raised,omitempty"` // why
}

func shownApproval(a pay.Approval, label string, now time.Time) Approval {
	return Approval{
		ID: a.ID, State: a.State(now), KeyID: a.KeyID, KeyLabel: label, Organization: a.OrganizationID, Door: a.Door, Task: a.Task, Method: a.Method,
		Host: a.Host, URL: a.URL, Settlement: a.Terms.Settlement, Network: a.Terms.Network, Protocol: a.Terms.Protocol(), Scheme: a.Terms.Scheme, Asset: a.Terms.Asset.String(),
		PayTo: a.Terms.PayTo.String(), Amount: a.Terms.Amount.String(), Currency: a.Currency, Rule: a.Rule, Detail: a.Detail, Created: a.Created.UTC(),
		Expires: a.Expires.UTC(), Answer: a.Answer, Answered: a.Answered, By: a.By.String(), Reason: a.Reason, PaymentID: a.PaymentID, Used: a.Used,
	}
}

// approvals serves GET /purser/approvals?state=&key=&limit=&before=.
func (p *Purser) approvals(r *http.Request) (any, error) {
	asked := r.URL.Query()
	q := pay.ApprovalQuery{State: pay.ApprovalState(asked.Get("state")), Before: asked.Get("before"), Now: p.Books.Now()}
	if q.State != "" && !slices.Contains(ApprovalStates, string(q.State)) {
		return nil, Errorf(http.StatusBadRequest, "state: one of %s", strings.Join(ApprovalStates, ", "))
	}
	if key := asked.Get("key"); key != "" {
		k, err := p.find(r.Context(), key)
		if err != nil {
			return nil, err
		}
		q.KeyID = k.ID
	}
	labels := map[string]string{}
	list, next, err := listed(r, func(limit int) ([]pay.Approval, error) {
		q.Limit = limit
		return p.Books.ApprovalsIn(r.Context(), books.OfOperator(), q)
	}, func(a pay.Approval) string {
		return a.ID
	}, func(a pay.Approval) (Approval, error) {
		label, known := labels[a.KeyID]
		if !known {
			var err error
			if label, err = p.labelOf(r.Context(), a.KeyID); err != nil {
				return Approval{}, err
			}
			labels[a.KeyID] = label
		}
		return shownApproval(a, label, q.Now), nil
	})
	return Approvals{list, next}, err
}

// showApproval serves GET /purser/approvals/{id}.
func (p *Purser) showApproval(r *http.Request) (any, error) {
	a, err := p.findApproval(r.Context(), r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	label, err := p.labelOf(r.Context(), a.KeyID)
	return shownApproval(a, label, p.Books.Now()), err
}

// answerApproval serves POST /purser/approvals/{id}.
func (p *Purser) answerApproval(r *http.Request, want NewAnswer) (any, error) {
	if want.RaiseLimit && want.Answer != pay.Approved {
		return nil, Errorf(http.StatusBadRequest, "raise_limit: only with the answer approved")
	}
	a, err := p.findApproval(r.Context(), r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	desk := books.Desk{Payer: p.Payer, Books: p.Books}
	done, err := desk.Answer(r.Context(), pay.ApprovalAnswering{ID: a.ID, Answer: want.Answer, Reason: want.Reason, At: p.Books.Now()}, want.RaiseLimit)
	if errors.Is(err, pay.ErrApprovalClosed) {
		return nil, Errorf(http.StatusConflict, "%s", p.closed(r.Context(), a.ID))
	}
	if err != nil {
		return nil, err
	}
	label, err := p.labelOf(r.Context(), a.KeyID)
	shown := AnsweredApproval{Approval: shownApproval(done.Approval, label, p.Books.Now()), NotRaised: done.NotRaised}
	if done.Raised != nil {
		shown.Raised = done.Raised.String()
	}
	return shown, err
}

// closed says why an approval takes no answer any more.
func (p *Purser) closed(ctx context.Context, id string) string {
	a, err := p.Books.ApprovalIn(ctx, books.OfOperator(), id)
	if err != nil {
		return pay.ErrApprovalClosed.Error()
	}
	switch a.State(p.Books.Now()) {
	case pay.ApprovalUsed:
		return fmt.Sprintf("the payment was approved by the %s, and began at %s", a.By, pay.Moment(a.Used))
	case pay.ApprovalApproved, pay.ApprovalDenied:
		return fmt.Sprintf("the payment was %s by the %s at %s", a.Answer, a.By, pay.Moment(a.Answered))
	case pay.ApprovalExpired, pay.ApprovalPending:
	}
	return fmt.Sprintf("the approval has expired at %s, and nothing was paid: the agent has to ask again", pay.Moment(a.Expires))
}

// labelOf returns the label of a key; "" for one that is not there.
func (p *Purser) labelOf(ctx context.Context, keyID string) (string, error) {
	k, err := p.Books.Key(ctx, keyID)
	if errors.Is(err, pay.ErrKeyNotFound) {
		return "", nil
	}
	return k.Label, err
}

// findApproval returns an approval by its id, or by the beginning of that, like findPayment.
func (p *Purser) findApproval(ctx context.Context, name string) (pay.Approval, error) {
	a, err := p.Books.ApprovalIn(ctx, books.OfOperator(), name)
	if !errors.Is(err, pay.ErrApprovalNotFound) {
		return a, err
	}
	unknown := Errorf(http.StatusNotFound, "no approval has the id %.64q%s ('purser approvals --state all' lists them)", name, tooShort(name))
	if _, err := uuid.Parse(name); err == nil || len(name) < minPrefix {
		return a, unknown
	}
	begins := idBegins(name)
	var found []pay.Approval
	for before, seen := "", 0; seen < searchRows; {
		list, err := p.Books.ApprovalsIn(ctx, books.OfOperator(), pay.ApprovalQuery{Before: before, Limit: searchPage, Now: p.Books.Now()})
		if err != nil {
			return a, err
		}
		for _, one := range list {
			if begins(one.ID) {
				found = append(found, one)
			}
		}
		if len(list) < searchPage || len(found) > shownMatches || list[len(list)-1].ID < strings.ToLower(name) {
			break
		}
		before, seen = list[len(list)-1].ID, seen+len(list)
	}
	return named[pay.Approval]{
		kind: "approval", id: func(a pay.Approval) string { return a.ID }, unknown: unknown,
		more: func(a pay.Approval) string {
			return money.Text(a.Terms.Amount) + " to " + a.Host + ", " + string(a.State(p.Books.Now()))
		},
	}.only(name, found)
}
