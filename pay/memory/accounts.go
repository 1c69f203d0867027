package memory

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/purserpay/purser/pay"
)

// Organization finds an organization; an unknown one has the free plan.
func (s *Store) Organization(ctx context.Context, id string) (pay.Organization, error) {
	return read(ctx, s, func(r *rows) (pay.Organization, error) {
		org, _, _ := r.organization(id)
		return org, nil
	})
}

// Organizations lists organizations by id from behind one.
func (s *Store) Organizations(ctx context.Context, after string, limit int) ([]pay.Organization, error) {
	return read(ctx, s, func(r *rows) ([]pay.Organization, error) { return page(&r.orgs, after, limit), nil })
}

// SetPlan moves an organization to a plan.
func (s *Store) SetPlan(ctx context.Context, orgID string, plan pay.PlanName) (org pay.Organization, err error) {
	err = s.change(ctx, func(r *rows) (c pay.Change, err error) {
		if org, err = r.orgs.find(orgID, pay.ErrOrganizationNotFound); err != nil {
			return c, err
		}
		c = pay.PlanChanged(orgID, org.Plan, plan)
		org.Plan = plan
		r.orgs.put(orgID, org)
		return c, nil
	})
	return org, err
}

// OrganizationKeys lists an organization's keys, oldest first.
func (s *Store) OrganizationKeys(ctx context.Context, orgID string) ([]pay.Key, error) {
	return read(ctx, s, func(r *rows) ([]pay.Key, error) {
		_, _, keys := r.organization(orgID)
		return keys, nil
	})
}

// Enroll signs a person in.
func (s *Store) Enroll(ctx context.Context, e pay.Enrollment) (a pay.Account, first bool, err error) {
	if e.Account.ID == "" || e.Account.OrganizationID != "" && e.Key.OrganizationID != e.Account.OrganizationID {
		return a, false, errors.New("enroll: no id, or a key of another organization")
	}
	err = s.change(ctx, func(r *rows) (c pay.Change, err error) {
		a, first = e.Account, true
		begins := a.OrganizationID != "" // with an organization
		for _, was := range r.accounts.ascending("") {
			if was.Issuer == a.Issuer && was.Subject == a.Subject {
				first = false
				a.ID, a.Created, a.Generation = was.ID, was.Created, was.Generation
				if was.OrganizationID != "" {
					a.OrganizationID, begins = was.OrganizationID, false
				}
			}
		}
		if _, taken := r.accounts.get(a.ID); first && taken {
			return c, fmt.Errorf("enroll: id %s is taken", a.ID)
		}
		_, known := r.orgs.get(e.Key.OrganizationID)
		if begins && known {
			return c, fmt.Errorf("enroll: organization %s is there already", a.OrganizationID)
		}
		if begins || e.Account.OrganizationID == "" && e.Key.OrganizationID != "" && !known {
			if err := r.createKey(e.Key); err != nil {
				return c, err
			}
			c = pay.KeyCreated(e.Key.Key)
		}
		r.accounts.put(a.ID, a)
		return c, nil
	})
	if err != nil {
		return pay.Account{}, false, err
	}
	return a, first, nil
}

// Account finds an account by id.
func (s *Store) Account(ctx context.Context, id string) (pay.Account, error) {
	return read(ctx, s, func(r *rows) (pay.Account, error) { return r.accounts.find(id, pay.ErrAccountNotFound) })
}

// EndSessions begins an account's next generation.
func (s *Store) EndSessions(ctx context.Context, accountID string) (a pay.Account, err error) {
	err = s.do(ctx, func(r *rows) error {
		if a, err = r.accounts.find(accountID, pay.ErrAccountNotFound); err != nil {
			return err
		}
		a.Generation++
		r.accounts.put(a.ID, a)
		return nil
	})
	return a, err
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
