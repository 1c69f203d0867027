package books

import (
	"context"
	"math"
	"slices"

	"github.com/purserpay/purser/pay"
)

// Scope says whose keys a reader sees, with their wallets, payments and changes: those of one
// organization, or all. The zero Scope sees nothing.
type Scope struct {
	organization string
	all          bool
}

// OfOrganization is the scope of an organization's members. An empty id sees nothing: a key that no
// organization has claimed belongs to none of them.
func OfOrganization(id string) Scope { return Scope{organization: id} }

// OfOperator is the operator's scope: the keys of all organizations, unclaimed ones, and the
// operator's own.
func OfOperator() Scope { return Scope{all: true} }

// String names the scope in logs and for bounds. No organization's id has a space.
func (s Scope) String() string {
	switch {
	case s.all:
		return "all organizations"
	case s.organization == "":
		return "no organization"
	}
	return s.organization
}

func (s Scope) sees(k pay.Key) bool {
	return s.all || s.organization != "" && k.OrganizationID == s.organization
}

// listPage is the most rows that the store lists at a time.
const listPage = 1000

// everything lists all rows that the store lists page by page.
func everything[T any](list func(after string, limit int) ([]T, error), id func(T) string) (all []T, err error) {
	for after := ""; ; after = id(all[len(all)-1]) {
		page, err := list(after, listPage)
		if err != nil {
			return nil, err
		}
		if all = append(all, page...); len(page) < listPage {
			return all, nil
		}
	}
}

// KeysIn lists the keys of a scope, oldest first.
func (b *Books) KeysIn(ctx context.Context, s Scope) ([]pay.Key, error) {
	switch {
	case s.all:
		return everything(func(after string, limit int) ([]pay.Key, error) { return b.reader.ListKeys(ctx, after, limit) },
			func(k pay.Key) string { return k.ID })
	case s.organization == "":
		return nil, nil
	}
	return b.reader.OrganizationKeys(ctx, s.organization)
}

// KeyPage lists at most limit keys of a scope, oldest first, from behind the one with id after ("" is
// the beginning). next is the id to go on from; "" at the end.
func (b *Books) KeyPage(ctx context.Context, s Scope, after string, limit int) (keys []pay.Key, next string, err error) {
	if s.all {
		keys, err = b.reader.ListKeys(ctx, after, limit+1)
	} else if keys, err = b.KeysIn(ctx, s); err == nil {
		keys = slices.DeleteFunc(keys, func(k pay.Key) bool { return k.ID <= after })
	}
	if err == nil && len(keys) > limit {
		keys = keys[:limit]
		next = keys[limit-1].ID
	}
	return keys, next, err
}

// walletPages bounds the pages of deleted wallets that are passed over in one page of live ones.
const walletPages = 5

// WalletPage lists live wallets of a scope like KeyPage. A page may have few, or none, and a next.
func (b *Books) WalletPage(ctx context.Context, s Scope, after string, limit int) (live []pay.Wallet, next string, err error) {
	if !s.all {
		if live, err = b.WalletsIn(ctx, s); err != nil {
			return nil, "", err
		}
		live = slices.DeleteFunc(live, func(w pay.Wallet) bool { return w.ID <= after })
	}
	for range walletPages {
		if !s.all || len(live) > limit {
			break
		}
		page, err := b.reader.AllWallets(ctx, after, listPage)
		if err != nil {
			return nil, "", err
		}
		for _, w := range page {
			if after = w.ID; w.Deleted == nil {
				live = append(live, w)
			}
		}
		if len(page) < listPage {
			after = ""
			break
		}
	}
	if s.all {
		next = after
	}
	if len(live) > limit {
		live = live[:limit]
		next = live[limit-1].ID
	} else if !s.all {
		next = ""
	}
	return live, next, nil
}

// KeyIn finds a key of a scope: ErrKeyNotFound, also for a key that the scope does not see.
func (b *Books) KeyIn(ctx context.Context, s Scope, keyID string) (pay.Key, error) {
	k, err := b.reader.Key(ctx, keyID)
	if err == nil && !s.sees(k) {
		return pay.Key{}, pay.ErrKeyNotFound
	}
	return k, err
}

// keyIDsIn lists the ids of the keys of a scope, or only keyID if set: ErrKeyNotFound.
func (b *Books) keyIDsIn(ctx context.Context, s Scope, keyID string) ([]string, error) {
	if keyID != "" {
		k, err := b.KeyIn(ctx, s, keyID)
		return []string{k.ID}, err
	}
	keys, err := b.KeysIn(ctx, s)
	ids := make([]string, 0, len(keys))
	for _, k := range keys {
		ids = append(ids, k.ID)
	}
	return ids, err
}

// WalletsIn lists the live wallets of a scope, oldest first.
func (b *Books) WalletsIn(ctx context.Context, s Scope) ([]pay.Wallet, error) {
	switch {
	case s.all:
		all, err := everything(func(after string, limit int) ([]pay.Wallet, error) { return b.reader.AllWallets(ctx, after, limit) },
			func(w pay.Wallet) string { return w.ID })
		live := all[:0]
		for _, w := range all {
			if w.Deleted == nil {
				live = append(live, w)
			}
		}
		return live, err
	case s.organization == "":
		return nil, nil
	}
	return b.reader.OrganizationWallets(ctx, s.organization)
}

// UsageIn counts what a scope uses. No plan bounds the operator, and no quota is the operator's.
func (b *Books) UsageIn(ctx context.Context, s Scope) (Usage, error) {
	if !s.all {
		return b.Usage(ctx, s.organization)
	}
	keys, err := b.KeysIn(ctx, s)
	if err != nil {
		return Usage{}, err
	}
	wallets, err := b.WalletsIn(ctx, s)
	u := Usage{Plan: pay.Plan{Keys: math.MaxInt, Wallets: math.MaxInt, Payments: math.MaxInt}, Wallets: len(wallets)}
	for _, k := range keys {
		if !k.Revoked() {
			u.Keys++
		}
	}
	return u, err
}

// AuditIn lists changes in a scope, newest first. q selects no organization. Earlier entries of a key
// that was linked belong to no organization. ErrKeyNotFound.
func (b *Books) AuditIn(ctx context.Context, s Scope, q pay.AuditQuery) ([]pay.AuditEntry, error) {
	switch {
	case q.KeyID != "":
		if _, err := b.KeyIn(ctx, s, q.KeyID); err != nil {
			return nil, err
		}
	case !s.all && s.organization == "":
		return nil, nil
	case !s.all:
		q.OrganizationID = s.organization
	}
	list, err := b.reader.AuditEntries(ctx, q)
	seen := list[:0]
	for _, e := range list {
		if s.all || e.OrganizationID == s.organization {
			seen = append(seen, e)
		}
	}
	return seen, err
}
