package adminapi

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/purserpay/purser/pay"
)

// AuditEntry is an entry of the audit. Old and New have the values that differ.
type AuditEntry struct {
	Number uint64    `json:"number"`
	At     time.Time `json:"at"`
	// Kind is operator, account or configuration; By is the name or id, and Email what the
	// identity provider said of an account.
	Kind         pay.ActorKind   `json:"kind"`
	By           string          `json:"by,omitempty"`
	Email        string          `json:"email,omitempty"`
	Action       pay.Action      `json:"action"`
	KeyID        string          `json:"key_id,omitempty"`
	Organization string          `json:"organization_id,omitempty"`
	WalletID     string          `json:"wallet_id,omitempty"`
	PaymentID    string          `json:"payment_id,omitempty"`
	Old          json.RawMessage `json:"old,omitempty"`
	New          json.RawMessage `json:"new,omitempty"`
}

// Audit is a page of the audit, newest first. Next is what before must be for the next
// page; empty on the last.
type Audit struct {
	Audit []AuditEntry `json:"audit"`
	Next  string       `json:"next,omitempty"`
}

// Rows of a page: unless a request says, and at most.
const (
	DefaultAuditPage = 100
	MaxAuditPage     = 500
)

// audit lists changes: GET /purser/audit?key=&limit=&before=.
func (p *Purser) audit(r *http.Request) (any, error) {
	asked := r.URL.Query()
	limit, err := pageLimit(asked, DefaultAuditPage, MaxAuditPage)
	if err != nil {
		return nil, err
	}
	q := pay.AuditQuery{Limit: limit + 1} // to know whether there are more
	if text := asked.Get("before"); text != "" {
		if q.Before, err = strconv.ParseUint(text, 10, 63); err != nil || q.Before == 0 {
			return nil, Errorf(http.StatusBadRequest, "before: the number of an entry")
		}
	}
	if name := asked.Get("key"); name != "" {
		k, err := p.find(r.Context(), name)
		if err != nil {
			return nil, err
		}
		q.KeyID = k.ID
	}
	entries, err := p.Books.AuditEntries(r.Context(), q)
	if err != nil {
		return nil, err
	}
	page := Audit{Audit: []AuditEntry{}}
	entries, page.Next = cutPage(entries, limit, func(e pay.AuditEntry) string { return strconv.FormatUint(e.Number, 10) })
	emails := map[string]string{}
	for _, e := range entries {
		shown := AuditEntry{
			Number: e.Number, At: e.At, Kind: e.By.Kind, By: e.By.ID, Action: e.Action, KeyID: e.KeyID, Organization: e.OrganizationID,
			WalletID: e.WalletID, PaymentID: e.PaymentID, Old: e.Old, New: e.New,
		}
		if e.By.Kind == pay.ActorAccount {
			email, known := emails[e.By.ID]
			if !known {
				a, err := p.Books.Account(r.Context(), e.By.ID)
				if err != nil && !errors.Is(err, pay.ErrAccountNotFound) {
					return nil, err
				}
				email = a.Email
				emails[e.By.ID] = email
			}
			shown.Email = email
		}
		page.Audit = append(page.Audit, shown)
	}
	return page, nil
}
