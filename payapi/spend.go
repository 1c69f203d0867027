package payapi

import (
	"encoding/json"
	"net/http"

	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/policy"
)

// spendEvent is a spend event with the payment that it comes from. A correction names the corrected
// event and has a negative amount.
type spendEvent struct {
	ID         string `json:"id"`
	Amount     string `json:"amount"`
	Currency   string `json:"currency"`
	RequestURL string `json:"request_url"`
	CreatedAt  string `json:"created_at"`
	PaymentID  string `json:"payment_id"`
	Task       string `json:"task,omitempty"`
	Corrects   string `json:"corrects,omitempty"`
}

type spendList struct {
	Events  []spendEvent `json:"events"`
	Pending pending      `json:"pending"`
}

// pending is the sum of the key's open payments.
type pending struct {
	Count  json.Number `json:"count"`
	Amount string      `json:"amount"`
}

// spend serves GET /v1/spend: the key's spend events, newest first. With ?task= it lists those of
// one task. Pending is always the sum of the whole key.
func (a *API) spend(r *http.Request, key pay.Key) (reply, error) {
	pg, err := readPage(r)
	if err != nil {
		return reply{}, err
	}
	task, given, err := pg.only("task")
	if err != nil {
		return reply{}, err
	}
	if given && !policy.ValidTask(task) {
		return reply{}, badRequest("Invalid task", "1 to 64 characters of A-Z a-z 0-9 . _ -")
	}
	events, open, err := a.books.Spend(r.Context(), key, pay.SpendQuery{Task: task, Before: pg.before, Limit: pg.limit})
	if err != nil {
		return reply{}, err
	}
	list := spendList{
		Events:  make([]spendEvent, len(events)),
		Pending: pending{Count: json.Number(open.Count.String()), Amount: open.Amount.String()},
	}
	for i, e := range events {
		list.Events[i] = spendEvent{
			ID: e.ID, Amount: e.SignedAmount(), Currency: e.Currency, RequestURL: e.RequestURL,
			CreatedAt: stamp(e.Created), PaymentID: e.PaymentID, Task: e.Task, Corrects: e.Corrects,
		}
	}
	return reply{status: http.StatusOK, body: list}, nil
}
