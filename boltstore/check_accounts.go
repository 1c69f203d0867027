package boltstore

import (
	"bytes"
	"context"

	"github.com/purserpay/purser/internal/codec"
)

// accounts compares every account with its organization and the index of identities.
func (c *checker) accounts(ctx context.Context) error {
	orgs := map[string]string{} // organization -> account
	err := c.each(ctx, accountsBucket, func(id, _ []byte) {
		a, err := accountIn(c.tx, string(id))
		if err != nil {
			c.fault("%v", err)
			return
		}
		if a.ID != string(id) {
			c.fault("account %s is stored as %s", a.ID, id)
		}
		if found := c.tx.Bucket(identitiesBucket).Get(codec.AccountKey(a.Issuer, a.Subject)); !bytes.Equal(found, id) {
			c.fault("account %s is not found by its identity", id)
		}
		if a.OrganizationID != "" { // of its own; no account has one that it shares
			if !c.has(orgsBucket, []byte(a.OrganizationID)) {
				c.fault("account %s has organization %s, which is not there", id, a.OrganizationID)
			}
			if other := orgs[a.OrganizationID]; other != "" {
				c.fault("accounts %s and %s have one organization", other, id)
			}
			orgs[a.OrganizationID] = string(id)
		}
		c.secret("account "+string(id), a.Person, codec.AccountSecret(a.ID))
	})
	if err != nil {
		return err
	}
	return c.each(ctx, identitiesBucket, func(key, id []byte) {
		if a, err := accountIn(c.tx, string(id)); err != nil || !bytes.Equal(key, codec.AccountKey(a.Issuer, a.Subject)) {
			c.fault("an identity leads to account %s, which is not its own", id)
		}
	})
}

// sessions compares every session with its entry by expiry, and their number. No fault names the
// id of a session, because an id is half of a secret.
func (c *checker) sessions(ctx context.Context) error {
	n := 0
	err := c.each(ctx, sessionsBucket, func(id, _ []byte) {
		n++
		s, err := sessionIn(c.tx, string(id))
		if err != nil {
			c.fault("%v", err)
			return
		}
		if !c.has(sessionsExpiryBucket, joinKey(encodeTime(s.Expires), string(id))) {
			c.fault("a session is not listed by when it expires")
		}
		c.secret("a session", s.Data, codec.SessionSecret(string(id)))
	})
	if err != nil {
		return err
	}
	if have, err := sessionCount(c.tx); err != nil {
		c.fault("%v", err)
	} else if have != n {
		c.fault("there are %d sessions, counted are %d", n, have)
	}
	return c.each(ctx, sessionsExpiryBucket, func(entry, _ []byte) {
		if len(entry) < 9 {
			c.fault("an entry of %s is too short", sessionsExpiryBucket)
			return
		}
		if s, err := sessionIn(c.tx, string(entry[9:])); err != nil || encodeTime(s.Expires) != string(entry[:8]) {
			c.fault("a session is listed as expiring at a time that is not its own")
		}
	})
}
