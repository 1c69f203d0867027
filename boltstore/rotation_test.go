package boltstore

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/purserpay/purser/internal/vault"
	"github.com/purserpay/purser/pay"
)

// sealedThings are secrets of all kinds in a store.
type sealedThings struct {
	key     pay.Key
	secret  string
	account pay.Account
	session pay.Session

	mu      sync.Mutex
	wallets []string
}

func (s *sealedThings) addWallet(d *DB) error {
	id := newID()
	err := d.CreateWallet(context.Background(), pay.NewWallet{
		Wallet: pay.Wallet{ID: id, KeyID: s.key.ID, ProviderID: "local_" + id, Network: "base", Created: noon},
		Secret: []byte("secret of " + id),
	}, 1<<20)
	if err == nil {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.wallets = append(s.wallets, id)
	}
	return err
}

// fillSealed puts secrets of all kinds into a store.
func fillSealed(t *testing.T, d *DB, wallets int) *sealedThings {
	t.Helper()
	s := &sealedThings{secret: "pk_" + newID()}
	org, accountKey := newID(), newID()
	plans := pay.Plans(nil)
	var err error
	s.key, err = d.CreateKey(t.Context(), pay.NewKey{
		Key: pay.Key{ID: newID(), OrganizationID: newID(), Created: noon}, Secret: s.secret, Plans: plans,
	})
	if err != nil {
		t.Fatal(err)
	}
	s.account, _, err = d.Enroll(t.Context(), pay.Enrollment{
		Account: pay.Account{
			ID: newID(), Identity: pay.Identity{Issuer: "https://idp.example.com", Subject: "1", Name: "Ada", Email: "ada@example.com"},
			OrganizationID: org, Created: noon, SignedIn: noon,
		},
		Key: pay.NewKey{Key: pay.Key{ID: accountKey, OrganizationID: org, Created: noon}, Secret: "pk_" + accountKey, Plans: plans},
	})
	if err != nil {
		t.Fatal(err)
	}
	s.session = pay.Session{ID: newID(), Data: []byte("signed in"), Expires: noon.Add(time.Hour)}
	if err := d.PutSession(t.Context(), s.session); err != nil {
		t.Fatal(err)
	}
	for range wallets {
		if err := s.addWallet(d); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// check reads all secrets.
func (s *sealedThings) check(t *testing.T, d *DB) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range s.wallets {
		if got, err := d.WalletSecret(t.Context(), id); err != nil || string(got) != "secret of "+id {
			t.Fatalf("wallet %s: %q, %v", id, got, err)
		}
	}
	if got, err := d.RevealKey(t.Context(), s.key.ID); err != nil || got != s.secret {
		t.Errorf("key: %q, %v", got, err)
	}
	if k, err := d.KeyBySecret(t.Context(), s.secret); err != nil || k.ID != s.key.ID {
		t.Errorf("key by its secret: %v, %v", k.ID, err)
	}
	if a, err := d.Account(t.Context(), s.account.ID); err != nil || a != s.account {
		t.Errorf("account: %+v, %v", a, err)
	}
	if got, err := d.Session(t.Context(), s.session.ID); err != nil || string(got.Data) != string(s.session.Data) {
		t.Errorf("session: %+v, %v", got, err)
	}
}

// versions counts the sealed rows by their data key.
func versions(t *testing.T, d *DB) map[byte]int {
	t.Helper()
	n := map[byte]int{}
	err := d.view(t.Context(), func(tx *bbolt.Tx) error {
		for _, rows := range sealedBuckets() {
			err := tx.Bucket(rows.bucket).ForEach(func(_, row []byte) error {
				sealed, _, err := rows.part(row)
				if err == nil {
					n[sealed[3]]++
				}
				return err
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// rotated waits until the rotation that is under way has ended.
func rotated(t *testing.T, d *DB) Resealed {
	t.Helper()
	d.background.Wait()
	r := d.Rotation()
	if r.Older != 0 || r.Stopped != "" {
		t.Fatalf("the rotation has not ended: %+v", r)
	}
	return r
}

func TestDataKeyRotation(t *testing.T) {
	t.Parallel()
	o := inFolder(t.TempDir())
	d := openIn(t, o)
	s := fillSealed(t, d, 3*resealRows)
	ctx, stop := context.WithCancel(t.Context())
	var load sync.WaitGroup
	for range 4 { // wallets are made and read all the while
		load.Go(func() {
			for ctx.Err() == nil {
				if err := s.addWallet(d); err != nil {
					t.Error(err)
					return
				}
				s.mu.Lock()
				id := s.wallets[len(s.wallets)/2]
				s.mu.Unlock()
				if _, err := d.WalletSecret(context.Background(), id); err != nil {
					t.Errorf("wallet %s: %v", id, err)
					return
				}
			}
		})
	}
	for version := range 3 {
		if err := d.RotateDataKey(pay.WithActor(t.Context(), pay.Operator("ada"))); err != nil {
			t.Fatal(err)
		}
		if r := rotated(t, d); r.DataKey != uint32(version)+2 || r.Done < 3*resealRows {
			t.Errorf("rotation %d: %+v", version, r)
		}
	}
	stop()
	load.Wait()
	s.check(t, d)
	if n := versions(t, d); len(n) != 1 || n[4] != len(s.wallets)+4 {
		t.Errorf("sealed rows by data key: %v", n)
	}
	entries, err := d.AuditEntries(t.Context(), pay.AuditQuery{Limit: 10})
	if err != nil || len(entries) != 3 || entries[0].Action != pay.ActionDataKeyRotate || string(entries[0].New) != `{"data_key":4}` {
		t.Errorf("audit: %+v, %v", entries, err)
	}
	checked(t, d)
	closed(t, d)
	d = openIn(t, o)
	s.check(t, d)
	if err := d.RotateDataKey(t.Context()); err != nil {
		t.Fatal(err)
	}
	rotated(t, d)
	s.check(t, d)
}

// A rotation that a kill cuts off goes on at the next start, and no secret is lost.
func TestDataKeyRotationIsKilled(t *testing.T) {
	t.Parallel()
	o := inFolder(t.TempDir())
	d := openIn(t, o)
	s := fillSealed(t, d, 20*resealRows)
	if err := d.RotateDataKey(t.Context()); err != nil {
		t.Fatal(err)
	}
	for kills := 0; d.Rotation().Older > 0; kills++ {
		killed(t, d)
		d = openIn(t, o)
		s.check(t, d)
		if kills == 3 {
			break
		}
	}
	rotated(t, d)
	s.check(t, d)
	if n := versions(t, d); n[1] != 0 {
		t.Errorf("sealed rows by data key: %v", n)
	}
}

// While the disk fails, a rotation waits. It ends once the store writes again.
func TestDataKeyRotationInAnOutage(t *testing.T) {
	t.Parallel()
	d := openIn(t, inFolder(t.TempDir()))
	s := fillSealed(t, d, 2*resealRows)
	failures := 0
	refuse := func(commit func() error) error {
		if failures++; failures > 3 && failures < 6 {
			return errors.New("the disk is full")
		}
		return commit()
	}
	d.hooks.commit.Store(&refuse)
	err := d.RotateDataKey(t.Context())
	if err != nil && !errors.Is(err, pay.ErrUnavailable) {
		t.Fatal(err)
	}
	d.background.Wait()
	s.check(t, d)
	if r := d.Rotation(); r.Older != 0 || r.Stopped != "" {
		t.Errorf("%+v", r)
	}
}

func TestMasterKeyRotation(t *testing.T) {
	t.Parallel()
	next := vault.Generate()
	with := func(o Options, key vault.MasterKey) Options { o.MasterKey = vault.Given(key); return o }
	for name, test := range map[string]struct {
		end  func(testing.TB, *DB)
		use  bool
		keys []bool // whether the former and the next key open the store afterwards
	}{
		"added":            {end: closed, keys: []bool{true, true}},
		"added, killed":    {end: killed, keys: []bool{true, true}},
		"replaced":         {end: closed, use: true, keys: []bool{false, true}},
		"replaced, killed": {end: killed, use: true, keys: []bool{false, true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := inFolder(t.TempDir())
			d := openIn(t, o)
			s := fillSealed(t, d, 3)
			if err := d.AddMasterKey(t.Context(), next); err != nil {
				t.Fatal(err)
			}
			if err := d.RotateDataKey(t.Context()); !errors.Is(err, vault.ErrMasterKeyFollows) {
				t.Errorf("a data key meanwhile: %v", err)
			}
			if test.use {
				if err := d.UseMasterKey(t.Context(), next); err != nil {
					t.Fatal(err)
				}
			}
			test.end(t, d)
			for i, key := range []vault.MasterKey{testMaster, next} {
				d, err := open(t.Context(), with(o, key), true)
				if (err == nil) != test.keys[i] {
					t.Fatalf("key %d: %v", i, err)
				}
				if err != nil {
					if !errors.Is(err, vault.ErrWrongMasterKey) {
						t.Errorf("key %d: %v", i, err)
					}
					continue
				}
				s.check(t, d)
				test.end(t, d)
			}
			// Since a start with the next key, the former one opens nothing.
			if _, err := open(t.Context(), o, true); !errors.Is(err, vault.ErrWrongMasterKey) {
				t.Errorf("the former key: %v", err)
			}
			d = openIn(t, with(o, next))
			if err := d.RotateDataKey(t.Context()); err != nil {
				t.Fatal(err)
			}
			rotated(t, d)
			s.check(t, d)
		})
	}
}
