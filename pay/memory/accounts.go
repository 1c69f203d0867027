package memory

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/purserpay/purser/pay"
)

// Organization finds an organization; an unknown one has the free plan.
func (s *Store) Organization(ctx context.Context, id string) (pay.Organization, error) {
	return read(ctx, s, func(r *rows) (pay.Organization, error) {
		org, _, err := r.OrganizationOf(id)
		return org, err
	})
}

// Organizations lists organizations by id from behind one.
func (s *Store) Organizations(ctx context.Context, after string, limit int) ([]pay.Organization, error) {
	return read(ctx, s, func(r *rows) ([]pay.Organization, error) { return page(&r.orgs, after, limit), nil })
}

// OrganizationKeys lists an organization's keys, oldest first.
func (s *Store) OrganizationKeys(ctx context.Context, orgID string) ([]pay.Key, error) {
	return read(ctx, s, func(r *rows) ([]pay.Key, error) { return r.KeysOf(orgID) })
}

// AccountOf finds the account of an issuer and subject.
func (r *rows) AccountOf(issuer, subject string) (pay.Account, error) {
	for _, a := range r.accounts.ascending("") {
		if a.Issuer == issuer && a.Subject == subject {
			return a, nil
		}
	}
	return pay.Account{}, pay.ErrAccountNotFound
}

// AccountByID finds an account.
func (r *rows) AccountByID(id string) (pay.Account, error) {
	return r.accounts.find(id, pay.ErrAccountNotFound)
}

// PutAccount writes an account.
func (r *rows) PutAccount(a pay.Account) error {
	r.accounts.put(a.ID, a)
	return nil
}

// Account finds an account by id.
func (s *Store) Account(ctx context.Context, id string) (pay.Account, error) {
	return read(ctx, s, func(r *rows) (pay.Account, error) { return r.AccountByID(id) })
}

// PutSession stores a session, or replaces it. When there are too many, the one that would
// expire first goes.
func (s *Store) PutSession(ctx context.Context, session pay.Session) error {
	if session.ID == "" || len(session.Data) > pay.MaxSessionData {
		return errors.New("put session: no id, or too long")
	}
	return s.do(ctx, func(r *rows) error {
		if _, known := r.sessions.get(session.ID); !known && len(r.sessions.ids) >= pay.MaxSessions {
			r.sessions.delete(r.byExpiry()[0].ID)
		}
		session.Expires = session.Expires.UTC()
		r.sessions.put(session.ID, copied(session))
		return nil
	})
}

// Session finds a session, an expired one too.
func (s *Store) Session(ctx context.Context, id string) (pay.Session, error) {
	return read(ctx, s, func(r *rows) (pay.Session, error) { return r.sessions.find(id, pay.ErrSessionNotFound) })
}

// DeleteSession removes a session, if it is there.
func (s *Store) DeleteSession(ctx context.Context, id string) error {
	return s.do(ctx, func(r *rows) error { r.sessions.delete(id); return nil })
}

// ExpireSessions removes sessions whose time is over.
func (s *Store) ExpireSessions(ctx context.Context, now time.Time, limit int) (n int, err error) {
	err = s.do(ctx, func(r *rows) error {
		for _, session := range r.byExpiry() {
			if n == limit || session.Expires.After(now) {
				break
			}
			r.sessions.delete(session.ID)
			n++
		}
		return nil
	})
	return n, err
}

// byExpiry lists the sessions, those that expire first first.
func (r *rows) byExpiry() (list []pay.Session) {
	for _, session := range r.sessions.ascending("") {
		list = append(list, session)
	}
	slices.SortFunc(list, func(a, b pay.Session) int {
		return cmp.Or(a.Expires.Compare(b.Expires), strings.Compare(a.ID, b.ID))
	})
	return list
}

// AuditEntries lists entries, newest first.
func (s *Store) AuditEntries(ctx context.Context, q pay.AuditQuery) ([]pay.AuditEntry, error) {
	return read(ctx, s, func(r *rows) (list []pay.AuditEntry, err error) {
		for _, e := range slices.Backward(r.audit) {
			if (q.Before == 0 || e.Number < q.Before) && len(list) < min(q.Limit, 1000) &&
				(q.KeyID == "" || e.KeyID == q.KeyID) && (q.OrganizationID == "" || e.OrganizationID == q.OrganizationID) {
				list = append(list, e)
			}
		}
		return list, nil
	})
}
