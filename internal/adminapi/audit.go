package adminapi

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
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
	KeyLabel     string          `json:"key_label,omitempty"`
	Organization string          `json:"organization_id,omitempty"`
	WalletID     string          `json:"wallet_id,omitempty"`
	PaymentID    string          `json:"payment_id,omitempty"`
	Old          json.RawMessage `json:"old,omitempty"`
	New          json.RawMessage `json:"new,omitempty"`
}

// Audit is a page of the audit, newest first.
type Audit struct {
	Audit []AuditEntry `json:"audit"`
	Next  string       `json:"next,omitempty"`
}

// audit lists changes: GET /purser/audit?key=&limit=&before=.
func (p *Purser) audit(r *http.Request) (any, error) {
	entries, next, err := listed(r, func(limit int) ([]pay.AuditEntry, error) {
		return p.auditEntries(r.Context(), r.URL.Query(), limit)
	}, func(e pay.AuditEntry) string {
		return strconv.FormatUint(e.Number, 10)
	}, func(e pay.AuditEntry) (AuditEntry, error) {
		shown := AuditEntry{
			Number: e.Number, At: e.At, Kind: e.By.Kind, By: e.By.ID, Action: e.Action, KeyID: e.KeyID,
			Organization: e.OrganizationID, WalletID: e.WalletID, PaymentID: e.PaymentID, Old: e.Old, New: e.New,
		}
		if e.By.Kind == pay.ActorAccount {
			a, err := p.Books.Account(r.Context(), e.By.ID)
			if err != nil && !errors.Is(err, pay.ErrAccountNotFound) {
				return shown, err
			}
			shown.Email = a.Email
		}
		return shown, nil
	})
	if err == nil {
		err = nameKeys(p, r.Context(), entries, func(e *AuditEntry) (string, *string) { return e.KeyID, &e.KeyLabel })
	}
	return Audit{entries, next}, err
}

func (p *Purser) auditEntries(ctx context.Context, asked url.Values, limit int) (_ []pay.AuditEntry, err error) {
	q := pay.AuditQuery{Limit: limit}
	if text := asked.Get("before"); text != "" {
		if q.Before, err = strconv.ParseUint(text, 10, 63); err != nil || q.Before == 0 {
			return nil, Errorf(http.StatusBadRequest, "before: the number of an entry")
		}
	}
	if name := asked.Get("key"); name != "" {
		k, err := p.find(ctx, name)
		if err != nil {
			return nil, err
		}
		q.KeyID = k.ID
	}
	return p.Books.AuditEntries(ctx, q)
}
