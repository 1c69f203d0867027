package boltstore

import (
	"bytes"
	"context"

	"github.com/purserpay/purser/pay/storekit"
)

// replaced checks the secrets that were replaced, and the exec key.
func (c *checker) replaced(ctx context.Context) error {
	if k, err := execIn(c.tx); err == nil && !k.Exec {
		c.fault("key %s is the exec key, and its row does not say so", k.ID)
	} else if err != nil && c.has(metaBucket, execKey) {
		c.fault("the exec key: %v", err)
	}
	return c.each(ctx, replacedBucket, func(hash, id []byte) {
		if !c.has(keysBucket, id) {
			c.fault("a secret of key %s was replaced, which is not there", id)
		}
		if c.has(keyHashBucket, hash) {
			c.fault("a secret of key %s was replaced and still finds a key", id)
		}
	})
}

// lent compares both lists of lent wallets with each other and with the rows, and checks the
// deployment's wallets.
func (c *checker) lent(ctx context.Context) error {
	err := c.each(ctx, lentWalletsBucket, func(entry, at []byte) {
		keyID, id, _ := bytes.Cut(entry, []byte{0})
		if w, err := walletIn(c.tx, string(id)); err != nil || w.KeyID == string(keyID) || !c.has(keysBucket, keyID) || len(at) != 8 {
			c.fault("wallet %s is lent to key %s, which cannot be", id, keyID)
		}
		if !c.has(walletKeysBucket, joinKey(string(id), string(keyID))) {
			c.fault("wallet %s does not list key %s, which it is lent to", id, keyID)
		}
	})
	if err != nil {
		return err
	}
	err = c.each(ctx, walletKeysBucket, func(entry, _ []byte) {
		id, keyID, _ := bytes.Cut(entry, []byte{0})
		if !c.has(lentWalletsBucket, joinKey(string(keyID), string(id))) {
			c.fault("wallet %s lists key %s, which it is not lent to", id, keyID)
		}
	})
	if err != nil {
		return err
	}
	drawn, err := storekit.Setting[map[string]string](settings{c.tx}, storekit.Drawn)
	if err != nil {
		c.fault("the deployment's wallets: %v", err)
	}
	for network, id := range drawn {
		if w, err := walletIn(c.tx, id); err != nil || w.Network != network {
			c.fault("wallet %s is the deployment's on %s, which cannot be", id, network)
		}
	}
	return nil
}
