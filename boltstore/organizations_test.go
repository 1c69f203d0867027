package boltstore

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/purserpay/purser/internal/books"
	"github.com/purserpay/purser/internal/testing/paytest"
	"github.com/purserpay/purser/internal/vault"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/policy"
	"github.com/purserpay/purser/x402"
)

// wantFault demands that a check of a file names a fault.
func wantFault(t *testing.T, name, path, text string) {
	t.Helper()
	r, err := CheckFile(t.Context(), path, vault.Given(testMaster))
	if err != nil || !slices.ContainsFunc(r.Faults, func(f string) bool { return strings.Contains(f, text) }) {
		t.Errorf("%s: %v, %q", name, err, r.Faults)
	}
}

// between is a store in which something happens between the judging of a call and its
// journal.
type between struct {
	*DB
	once sync.Once
	do   func()
}

func (s *between) Begin(ctx context.Context, b *pay.Begin) (pay.Begun, error) {
	s.once.Do(s.do)
	return s.DB.Begin(ctx, b)
}

func (s *between) CreateWallet(ctx context.Context, w pay.NewWallet, limit int) error {
	s.once.Do(s.do)
	return s.DB.CreateWallet(ctx, w, limit)
}

func buying(t testing.TB, k pay.Key, door policy.Door, n int) pay.Request {
	t.Helper()
	r := paytest.Proxied(t, k, fmt.Sprintf("https://api.example.com/%d", n), "1000")
	if r.Door = door; door == policy.DoorAPI {
		r.HTTP = nil
	}
	return r
}

func places(t testing.TB, d *DB, k pay.Key) string {
	t.Helper()
	n, err := d.Counter(t.Context(), pay.PlaceCounter(k.Owner(), noon))
	if err != nil {
		t.Fatal(err)
	}
	return n.String()
}

// A key is linked, or its organization's plan changes, after a call was judged and before it
// is journaled: what is in force then counts.
func TestLinkedBeforeTheJournal(t *testing.T) {
	t.Parallel()
	for _, door := range []policy.Door{policy.DoorAPI, policy.DoorProxy} {
		d := openIn(t, inFolder(t.TempDir()))
		a := enrolled(t, d, "ada")
		s := &between{DB: d}
		desk := paytest.NewWorld(t, pay.Options{
			Store: s, Clock: func() time.Time { return noon }, Plans: pay.Plans{pay.PlanFree: {Payments: 1, Wallets: 1}},
		})
		k, secret, err := desk.Books.CreateKey(t.Context(), books.KeyRequest{})
		if err != nil {
			t.Fatal(err)
		}
		for i, id := range []string{"w1", "w2"} {
			w := pay.NewWallet{Wallet: pay.Wallet{ID: id, KeyID: k.ID, Network: "base", Address: new(x402.EVMAddress([20]byte{byte(i), 1}))}}
			if err := d.CreateWallet(t.Context(), w, 9); err != nil {
				t.Fatal(err)
			}
		}
		s.do = func() {
			if _, err := desk.Books.LinkKey(t.Context(), a.OrganizationID, secret); err != nil {
				t.Error(err)
			}
		}
		_, err = desk.Books.CreateWallet(t.Context(), k, "base") // for a key that may have a hundred
		wantError(t, err, pay.ErrWalletLimit)

		for _, id := range []string{"w1", "w2"} {
			if err := d.DeleteWallet(t.Context(), k.ID, id, noon); err != nil {
				t.Fatal(err)
			}
		}
		linked, err := d.Key(t.Context(), k.ID)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := desk.Books.CreateWallet(t.Context(), linked, "base"); err != nil {
			t.Fatal(err)
		}
		pays := func(n int) {
			t.Helper()
			attempt, err := desk.Payer.Open(t.Context(), buying(t, k, door, n)) // the caller still takes it for unclaimed
			if err != nil {
				t.Fatal(err)
			}
			attempt.Finish(true)
			if got := attempt.Payment().OrganizationID; got != a.OrganizationID {
				t.Errorf("the payment is of organization %q", got)
			}
		}
		pays(1)
		if places(t, d, linked) != "1" || places(t, d, k) != "0" {
			t.Errorf("the organization has %s places taken, the key %s", places(t, d, linked), places(t, d, k))
		}
		if _, err := desk.Payer.Open(t.Context(), buying(t, k, door, 2)); !errors.Is(err, pay.ErrQuota) {
			t.Errorf("error %v", err)
		}

		// And the other way round: the plan that it was judged by had room.
		if _, err := desk.Books.SetPlan(t.Context(), a.OrganizationID, pay.PlanAgency); err != nil {
			t.Fatal(err)
		}
		s.once = sync.Once{}
		s.do = func() {
			if _, err := desk.Books.SetPlan(t.Context(), a.OrganizationID, pay.PlanFree); err != nil {
				t.Error(err)
			}
		}
		if _, err := desk.Payer.Open(t.Context(), buying(t, linked, door, 3)); !errors.Is(err, pay.ErrQuota) {
			t.Errorf("error %v", err)
		}
		if places(t, d, linked) != "1" {
			t.Errorf("%s places are taken", places(t, d, linked))
		}
		checked(t, d)
	}
}

// More wallets than one transaction reads.
func TestManyWalletsOfAnOrganization(t *testing.T) {
	t.Parallel()
	d := openIn(t, inFolder(t.TempDir()))
	a := enrolled(t, d, "ada")
	many := 2*scanRows + 7
	for _, n := range []int{1, scanRows - 1, scanRows, 7} { // at the edges of a transaction
		id := newID()
		if _, err := d.CreateKey(t.Context(), pay.NewKey{Key: pay.Key{ID: id}, Secret: "pk_" + id}); err != nil {
			t.Fatal(err)
		}
		for range n {
			if err := d.CreateWallet(t.Context(), pay.NewWallet{Wallet: pay.Wallet{ID: newID(), KeyID: id}}, many); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := d.LinkKey(t.Context(), pay.Link{
			Secret: "pk_" + id, OrganizationID: a.OrganizationID, Plans: pay.Plans{pay.PlanFree: {Keys: 10}},
		}); err != nil {
			t.Fatal(err)
		}
	}
	list, err := d.OrganizationWallets(t.Context(), a.OrganizationID)
	if err != nil || len(list) != many {
		t.Fatalf("%d wallets, %v", len(list), err)
	}
	for i, w := range list[1:] {
		if w.ID <= list[i].ID {
			t.Fatal("not in order, or twice")
		}
	}
	if n, err := d.WalletCount(t.Context(), pay.Key{OrganizationID: a.OrganizationID}); err != nil || n != many {
		t.Errorf("%d counted, %v", n, err)
	}
}
