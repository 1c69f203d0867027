package boltstore

import (
	"bytes"
	"context"

	"github.com/purserpay/purser/internal/codec"
)

// keys compares every key with its hash, the revision of its policy and its secret.
func (c *checker) keys(ctx context.Context) error {
	hashes := map[string]int{}
	err := c.each(ctx, keyHashBucket, func(_, id []byte) {
		hashes[string(id)]++
		if _, err := keyIn(c.tx, string(id)); err != nil {
			c.fault("hash of key %s: %v", id, err)
		}
	})
	if err != nil {
		return err
	}
	err = c.each(ctx, keysBucket, func(id, _ []byte) {
		c.report.Keys++
		k, err := keyIn(c.tx, string(id))
		if err != nil {
			c.fault("%v", err)
			return
		}
		if k.ID != string(id) {
			c.fault("key %s is stored as %s", k.ID, id)
		}
		if n := hashes[k.ID]; n != 1 {
			c.fault("key %s is found by %d hashes", id, n)
		}
		if n, err := revisionIn(c.tx, k.ID); err != nil {
			c.fault("%v", err)
		} else if n != k.PolicyRevision {
			c.fault("key %s has its policy in revision %d, listed is %d", id, k.PolicyRevision, n)
		}
		if k.Claimed() && !c.has(orgKeysBucket, joinKey(k.OrganizationID, k.ID)) {
			c.fault("key %s is missing in its organization", id)
		}
		if parent, err := keyIn(c.tx, k.Parent); k.Parent != "" && (err != nil || !parent.HasChildren || parent.Parent != "") {
			c.fault("key %s has the parent %s, which is not there or does not know of children", id, k.Parent)
		}
		if sealed := c.tx.Bucket(keySecretsBucket).Get(id); k.Kept() != (sealed != nil) {
			c.fault("key %s: only claimed keys and the exec key have a copy of their secret, and all of them do", id)
		} else if sealed != nil {
			c.secret("key "+k.ID, sealed, codec.KeySecret(k.ID))
		}
	})
	if err != nil {
		return err
	}
	for _, bucket := range [][]byte{revisionsBucket, keySecretsBucket} {
		err := c.each(ctx, bucket, func(id, _ []byte) {
			if !c.has(keysBucket, id) {
				c.fault("%s has an entry for key %q, which is not there", bucket, id)
			}
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// secret tries to open a secret.
func (c *checker) secret(whose string, sealed []byte, identity string) {
	if c.unseal == nil {
		return
	}
	if _, err := c.unseal(sealed, identity); err != nil {
		c.fault("secret of %s: %v", whose, err)
	}
}

// organizations checks the rows of organizations, and that each lists only its own keys.
func (c *checker) organizations(ctx context.Context) error {
	err := c.each(ctx, orgsBucket, func(id, _ []byte) {
		if org, _, err := organizationIn(c.tx, string(id)); err != nil {
			c.fault("%v", err)
		} else if org.ID != string(id) {
			c.fault("organization %s is stored as %s", org.ID, id)
		}
	})
	if err != nil {
		return err
	}
	return c.each(ctx, orgKeysBucket, func(entry, _ []byte) {
		org, id, _ := bytes.Cut(entry, []byte{0})
		if !c.has(orgsBucket, org) {
			c.fault("organization %s has keys, but no row", org)
		}
		if k, err := keyIn(c.tx, string(id)); err != nil || k.OrganizationID != string(org) {
			c.fault("organization %s lists key %s, which is not its own", org, id)
		}
	})
}

// wallets compares every wallet with the list of live ones, its address and the key material.
func (c *checker) wallets(ctx context.Context) error {
	err := c.each(ctx, walletsBucket, func(id, _ []byte) {
		c.report.Wallets++
		w, err := walletIn(c.tx, string(id))
		if err != nil {
			c.fault("%v", err)
			return
		}
		if w.ID != string(id) {
			c.fault("wallet %s is stored as %s", w.ID, id)
		}
		if !c.has(keysBucket, []byte(w.KeyID)) {
			c.fault("wallet %s belongs to key %s, which is not there", id, w.KeyID)
		}
		if w.Deleted == nil && !c.has(liveWalletsBucket, joinKey(w.KeyID, w.ID)) {
			c.fault("wallet %s is live but not listed", id)
		}
		if w.Address != nil && string(c.tx.Bucket(addressesBucket).Get(w.Address.Bytes())) != w.ID {
			c.fault("wallet %s is not found by its address, or another wallet has it", id)
		}
	})
	if err != nil {
		return err
	}
	err = c.each(ctx, addressesBucket, func(address, id []byte) {
		w, err := walletIn(c.tx, string(id))
		if err != nil || w.Address == nil || !bytes.Equal(w.Address.Bytes(), address) {
			c.fault("address %x leads to wallet %s, which does not have it", address, id)
		}
	})
	if err != nil {
		return err
	}
	err = c.each(ctx, liveWalletsBucket, func(entry, _ []byte) {
		keyID, id, _ := bytes.Cut(entry, []byte{0})
		w, err := walletIn(c.tx, string(id))
		if err != nil || w.Deleted != nil || w.KeyID != string(keyID) {
			c.fault("wallet %s is listed for key %s, but is not a live wallet of it", id, keyID)
		}
	})
	if err != nil {
		return err
	}
	return c.each(ctx, walletSecretsBucket, func(id, sealed []byte) {
		if !c.has(walletsBucket, id) {
			c.fault("there is key material for wallet %s, which is not there", id)
		}
		c.secret("wallet "+string(id), sealed, codec.WalletSecret(string(id)))
	})
}
