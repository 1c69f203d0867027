package boltstore

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"

	"go.etcd.io/bbolt"

	"github.com/purserpay/purser/pay"
)

// Organization finds an organization.
func (d *DB) Organization(ctx context.Context, id string) (org pay.Organization, err error) {
	err = d.view(ctx, func(tx *bbolt.Tx) error {
		org, _, err = organizationIn(tx, id)
		return err
	})
	return org, err
}

// organizationIn reads an organization; an unknown one has the free plan.
func organizationIn(tx *bbolt.Tx, id string) (org pay.Organization, known bool, err error) {
	row := tx.Bucket(orgsBucket).Get([]byte(id))
	if row == nil {
		return pay.Organization{ID: id, Plan: pay.PlanFree}, false, nil
	}
	if err := decodeRow(row, &org); err != nil {
		return org, true, fmt.Errorf("organization %s: %w", id, err)
	}
	return org, true, nil
}

// PutOrganization writes an organization.
func (b *batch) PutOrganization(org pay.Organization) error {
	row, err := encodeRow(org)
	if err != nil {
		return err
	}
	return b.put(orgsBucket, []byte(org.ID), row)
}

// Organizations lists organizations by id from behind one.
func (d *DB) Organizations(ctx context.Context, after string, limit int) ([]pay.Organization, error) {
	return page[pay.Organization](ctx, d, orgsBucket, after, limit)
}

// OrganizationKeys lists an organization's keys, oldest first. Plans keep the list short.
func (d *DB) OrganizationKeys(ctx context.Context, orgID string) (list []pay.Key, err error) {
	err = d.view(ctx, func(tx *bbolt.Tx) error {
		list, err = organizationKeysIn(tx, orgID)
		return err
	})
	return list, err
}

func organizationKeysIn(tx *bbolt.Tx, orgID string) (list []pay.Key, err error) {
	for _, id := range keysOf(tx, orgID) {
		k, err := keyIn(tx, id)
		if err != nil {
			return nil, err
		}
		list = append(list, k)
	}
	return list, nil
}

// OrganizationWallets lists the live wallets of an organization's keys, oldest first.
func (d *DB) OrganizationWallets(ctx context.Context, orgID string) (list []pay.Wallet, err error) {
	err = d.walkOrganization(ctx, orgID, func(tx *bbolt.Tx, id string) error {
		w, err := walletIn(tx, id)
		if err == nil {
			list = append(list, w)
		}
		return err
	})
	slices.SortFunc(list, func(a, b pay.Wallet) int { return strings.Compare(a.ID, b.ID) })
	return list, err
}

// walkOrganization visits the live wallets of an organization, key by key. There may be many,
// because linked keys bring theirs whatever the plan. One transaction visits scanRows at most.
func (d *DB) walkOrganization(ctx context.Context, orgID string, visit func(tx *bbolt.Tx, walletID string) error) error {
	var from []byte // the entry to go on at, in the first of the keys
	var keys []string
	for more := true; more; {
		err := d.view(ctx, func(tx *bbolt.Tx) error {
			if from == nil {
				keys = keysOf(tx, orgID)
			}
			c := tx.Bucket(liveWalletsBucket).Cursor()
			for n := 0; len(keys) > 0; keys, from = keys[1:], nil {
				prefix := keyPrefix(keys[0])
				if from == nil {
					from = prefix
				}
				for k, _ := c.Seek(from); bytes.HasPrefix(k, prefix); k, _ = c.Next() {
					if n++; n > scanRows {
						from = bytes.Clone(k)
						return nil
					}
					if err := visit(tx, string(k[len(prefix):])); err != nil {
						return err
					}
				}
			}
			more = false
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}
