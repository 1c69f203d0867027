package adminapi

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/purserpay/purser/internal/notices"
	"github.com/purserpay/purser/pay"
)

// Webhooks lists the destinations of notices, mail included.
type Webhooks struct {
	Webhooks []notices.State `json:"webhooks"`
}

// TestWebhooks is the body of a request to send a test notice. Without a name all get one.
type TestWebhooks struct {
	Name string `json:"name"`
}

// TestedWebhooks tells what the receivers said.
type TestedWebhooks struct {
	Tested []notices.Tested `json:"tested"`
}

// ReplayWebhook is the body of a request to send notices again, from a number or a time on.
type ReplayWebhook struct {
	From  uint64    `json:"from,omitempty"`
	Since time.Time `json:"since,omitzero"`
}

// ReplayedWebhook tells how many notices a destination then has to get.
type ReplayedWebhook struct {
	Waiting uint64 `json:"waiting"`
}

// Notice is one notice as operators see it.
type Notice struct {
	Number     uint64            `json:"number"`
	ID         string            `json:"id"`
	At         time.Time         `json:"at"`
	Kind       pay.NoticeKind    `json:"kind"`
	Title      string            `json:"title"`
	Text       string            `json:"text"`
	KeyID      string            `json:"key_id,omitempty"`
	WalletID   string            `json:"wallet_id,omitempty"`
	PaymentID  string            `json:"payment_id,omitempty"`
	ApprovalID string            `json:"approval_id,omitempty"`
	Host       string            `json:"host,omitempty"`
	Payee      string            `json:"payee,omitempty"`
	Figures    map[string]string `json:"figures,omitempty"`
}

// Notices is a page of notices, newest first.
type Notices struct {
	Notices []Notice `json:"notices"`
	Next    string   `json:"next,omitempty"`
}

// webhooks serves GET /purser/webhooks.
func (p *Purser) webhooks(r *http.Request) (any, error) {
	list, err := p.Notices.States(r.Context())
	return Webhooks{list}, err
}

// testWebhooks serves POST /purser/webhooks/test.
func (p *Purser) testWebhooks(r *http.Request, want TestWebhooks) (any, error) {
	list, err := p.Notices.Test(r.Context(), want.Name)
	return TestedWebhooks{list}, unnamed(err)
}

// replayWebhook serves POST /purser/webhooks/{name}/replay.
func (p *Purser) replayWebhook(r *http.Request, want ReplayWebhook) (any, error) {
	if (want.From == 0) == want.Since.IsZero() {
		return nil, Errorf(http.StatusBadRequest, "name either from, the number of a notice, or since, a time")
	}
	n, err := p.Notices.Replay(r.Context(), r.PathValue("name"), notices.Replay{From: want.From, Since: want.Since})
	return ReplayedWebhook{n}, unnamed(err)
}

func unnamed(err error) error {
	if errors.Is(err, notices.ErrNoDestination) {
		return Errorf(http.StatusNotFound, "%w", err)
	}
	return err
}

// listNotices serves GET /purser/notices?limit=&before=.
func (p *Purser) listNotices(r *http.Request) (any, error) {
	list, next, err := listed(r, func(limit int) ([]pay.Notice, error) {
		q := pay.NoticeQuery{Limit: limit}
		if text := r.URL.Query().Get("before"); text != "" {
			var err error
			if q.Before, err = strconv.ParseUint(text, 10, 63); err != nil || q.Before == 0 {
				return nil, Errorf(http.StatusBadRequest, "before: the number of a notice")
			}
		}
		return p.Outbox.Notices(r.Context(), q)
	}, func(n pay.Notice) string {
		return strconv.FormatUint(n.Number, 10)
	}, func(n pay.Notice) (Notice, error) {
		return Notice{n.Number, n.ID, n.At, n.Kind, n.Title, n.Text, n.KeyID, n.WalletID, n.PaymentID, n.ApprovalID, n.Host, n.Payee, n.Figures}, nil
	})
	return Notices{list, next}, err
}
