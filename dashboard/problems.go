package dashboard

import (
	"errors"
	"math"
	"net/http"
	"strconv"

	"github.com/purserpay/purser/pay"
)

var (
	errNotFound = errors.New("no such page")
	// errApprovalLink answers each link of an approval that does not work. The answers do not differ.
	errApprovalLink = errors.New("the link of an approval does not work")
	errForm         = errors.New("the form cannot be read")
)

// problem holds a page that says what went wrong and what to do.
type problem struct {
	status                         int
	Title, Text, Action, ActionURL string
}

// refuse turns an error into a page. No other function does.
func (d *dashboard) refuse(r *http.Request, err error, h http.Header) answer {
	p := d.problemOf(err)
	if e, ok := errors.AsType[*tooManyError](err); ok {
		h.Set("Retry-After", strconv.Itoa(int(math.Ceil(e.wait.Seconds()))))
	}
	switch p.status {
	case http.StatusInternalServerError:
		d.Logger.Error("page failed", "method", r.Method, "route", r.Pattern, "error", err)
	case http.StatusServiceUnavailable:
		h.Set("Retry-After", "5")
		if r.Context().Err() == nil {
			d.Logger.Warn("page not served", "method", r.Method, "route", r.Pattern, "error", err)
		}
	}
	return answer{status: p.status, page: "problem", title: p.Title, body: p}
}

// problemOf returns the page for an error. An unknown id and an id of another organization get the
// same page.
func (d *dashboard) problemOf(err error) problem {
	limit := problem{status: http.StatusTooManyRequests, Action: "See your plan", ActionURL: "/dashboard/settings"}
	if upgrade := d.upgrade(visit{}); upgrade != "" {
		limit.Action, limit.ActionURL = "Get a larger plan", upgrade
	}
	notFound := problem{status: http.StatusNotFound, Title: "Not found", Text: "There is nothing at this address. It may have been deleted, or the address may have been cut off."}
	switch {
	case errors.Is(err, errNotFound):
		return notFound
	case errors.Is(err, errApprovalLink):
		return problem{
			status: http.StatusGone, Title: "This link does not work",
			Text:   "It is for one payment, and ends when the time for an answer is over, or when an operator signs out everywhere. It may also have been cut off. Nothing was changed.",
			Action: "See all approvals", ActionURL: approvalsPath,
		}
	case errors.Is(err, errOthersMoney):
		return problem{
			status: http.StatusForbidden, Title: "Only an operator permits more",
			Text: "This key pays with money of the operator of this purser. You can lower its limits and deny its payments. An operator can raise limits and approve payments. Nothing was changed.",
		}
	case errors.Is(err, errOperatorsMoney):
		return problem{
			status: http.StatusForbidden, Title: "Only an operator withdraws from this wallet",
			Text: "This wallet pays for a key that the operator of this purser made, and holds the operator's money. Nothing was changed.",
		}
	case errors.Is(err, errForm):
		return problem{status: http.StatusBadRequest, Title: "The form has a mistake", Text: "The form could not be read. Go back and try it again."}
	}
	if _, ok := errors.AsType[*tooManyError](err); ok {
		return problem{status: http.StatusTooManyRequests, Title: "Too many requests", Text: "That was too much at a time. Nothing was changed: wait a minute and try again."}
	}
	if p, ok := problemOfRole(err); ok {
		return p
	}
	switch pay.Code(err) {
	case pay.CodeKeyNotFound, pay.CodeWalletNotFound, pay.CodePaymentNotFound, pay.CodeEventNotFound, pay.CodeOrgNotFound, pay.CodeApprovalUnknown:
		return notFound
	case pay.CodeInput:
		input, _ := errors.AsType[*pay.InputError](err)
		return problem{status: http.StatusBadRequest, Title: "The form has a mistake", Text: input.Error()}
	case pay.CodeKeyLimit:
		limit.Title, limit.Text = "API key limit reached", "API key limit reached for your plan. Revoke a key that you do not need any more, or get a larger plan."
	case pay.CodeWalletLimit:
		limit.Title, limit.Text = "Wallet limit reached", "Wallet limit reached for your plan. Delete a wallet that you do not need any more, or get a larger plan."
	case pay.CodeQuota:
		limit.Title, limit.Text = "Payment limit reached", "Payment limit reached for your plan this month."
	case pay.CodeKeyRevoked:
		return problem{status: http.StatusConflict, Title: "This key is revoked", Text: "A revoked key never works again. Create another one."}
	case pay.CodePausedBy:
		return problem{status: http.StatusConflict, Title: "Paused by the operator", Text: "The operator has paused this key, and only the operator can resume it."}
	case pay.CodeNotRevealable:
		return problem{status: http.StatusConflict, Title: "This key cannot be shown", Text: "No copy of this key is kept, so it cannot be shown again. Create another one."}
	case pay.CodeSigner:
		signer, _ := errors.AsType[*pay.SignerError](err)
		return problem{
			status: http.StatusServiceUnavailable, Title: "The wallet provider made no wallet",
			Text: "purser answers: " + signer.Error() + ". Nothing was changed: try again, or tell the operator of this purser.",
		}
	case pay.CodeUnavailable, pay.CodeReconciling, pay.CodeClock, pay.CodeEnded:
		return problem{
			status: http.StatusServiceUnavailable, Title: "Not available at the moment",
			Text: "purser cannot read or write its books at the moment. It tries to recover every second. Nothing was changed: try again soon.",
		}
	default:
		return problem{status: http.StatusInternalServerError, Title: "Something went wrong", Text: "That is a fault of ours. The log has more about it."}
	}
	return limit
}
