package proxy

import (
	"errors"
	"net/http"
	"time"

	"github.com/purserpay/purser/pay"
)

// holdOrRefuse answers a 402 that is not paid because of err. If a person must approve the payment, it
// waits for the answer. Approved, it asks the seller for its terms anew, because those of the challenge are
// old: the payment is made if they are the approved ones.
func (t *Transport) holdOrRefuse(req *http.Request, call *Call, resp *http.Response, err error) (*http.Response, string, error) {
	if call.Dry || pay.Code(err) != pay.CodeApproval {
		return t.refuse(req, resp, err)
	}
	readWhole(resp, min(bodyPatience, t.patience)) // it keeps no connection to the seller while it waits
	waiting := pay.Request{Key: call.Key, Door: t.door, Task: call.Task, URL: bookedURL(req.URL), Approved: call.approved}
	approved, err := t.payer.AwaitApproval(call.caller, waiting, err)
	if err != nil {
		return t.refuse(req, resp, err)
	}
	closeBody(resp)
	call.approved = approved
	body, err := call.content(req, t.spool)
	if err != nil {
		return nil, ResultFailed, err
	}
	seen := new(sendTrace)
	resp, result, err := t.pass(withBody(req, body), seen)
	if err != nil {
		return nil, result, err
	}
	return t.payAnswer(req, call, resp, seen, body == nil)
}

// approvalView tells a client of the approval that its payment needs.
type approvalView struct {
	ID      string `json:"id"`
	Expires string `json:"expires"` // RFC 3339, UTC
}

// approvalOf returns the approval that an error is about; nil: a person was not asked.
func approvalOf(err error) *approvalView {
	held, is := errors.AsType[*pay.ApprovalError](err)
	if !is || held.Approval.ID == "" {
		return nil
	}
	return &approvalView{ID: held.Approval.ID, Expires: held.Approval.Expires.UTC().Format(time.RFC3339)}
}
