package pgstore

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/purserpay/purser/pay"
)

// organizationIn reads an organization; an unknown one has the free plan.
func organizationIn(ctx context.Context, q querier, id string) (org pay.Organization, known bool, err error) {
	org, err = one[pay.Organization](ctx, q, pay.ErrOrganizationNotFound, `SELECT row FROM organizations WHERE id = $1`, id)
	if errors.Is(err, pay.ErrOrganizationNotFound) {
		return pay.Organization{ID: id, Plan: pay.PlanFree}, false, nil
	}
	return org, err == nil, err
}

// OrganizationOf finds an organization.
func (t *tx) OrganizationOf(id string) (org pay.Organization, known bool, err error) {
	return organizationIn(t.ctx, t, id)
}

// KeysOf lists an organization's keys, oldest first.
func (t *tx) KeysOf(orgID string) ([]pay.Key, error) { return organizationKeysIn(t.ctx, t, orgID) }

func organizationKeysIn(ctx context.Context, q querier, id string) ([]pay.Key, error) {
	return many[pay.Key](ctx, q, `SELECT row FROM keys WHERE organization_id = $1 AND organization_id <> '' ORDER BY id`, id)
}

// PutOrganization writes an organization.
func (t *tx) PutOrganization(org pay.Organization) error {
	row, err := json.Marshal(org)
	if err != nil {
		return err
	}
	return t.exec(`INSERT INTO organizations (id, row) VALUES ($1, $2) ON CONFLICT (id) DO UPDATE SET row = excluded.row`, org.ID, row)
}

// Organization finds an organization.
func (d *DB) Organization(ctx context.Context, id string) (pay.Organization, error) {
	org, _, err := organizationIn(ctx, d.pool, id)
	return org, err
}

// Organizations lists organizations by id from behind one.
func (d *DB) Organizations(ctx context.Context, after string, limit int) ([]pay.Organization, error) {
	return many[pay.Organization](ctx, d.pool, `SELECT row FROM organizations WHERE id > $1 ORDER BY id LIMIT $2`, after, min(limit, maxPage))
}

// OrganizationKeys lists an organization's keys, oldest first.
func (d *DB) OrganizationKeys(ctx context.Context, orgID string) ([]pay.Key, error) {
	return organizationKeysIn(ctx, d.pool, orgID)
}

// OrganizationWallets lists the live wallets of an organization's keys, oldest first.
func (d *DB) OrganizationWallets(ctx context.Context, orgID string) ([]pay.Wallet, error) {
	return many[pay.Wallet](ctx, d.pool, `SELECT w.row FROM wallets w JOIN keys k ON k.id = w.key_id WHERE w.live AND k.organization_id = $1 AND $1 <> '' ORDER BY w.id`, orgID)
}
