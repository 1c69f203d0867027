package boltstore

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"go.etcd.io/bbolt"

	"github.com/purserpay/purser/internal/codec"
	"github.com/purserpay/purser/pay"
)

// enrollment makes the first sign-in of a person.
func enrollment(subject string) pay.Enrollment {
	org := "org_" + newID()
	return pay.Enrollment{
		Account: pay.Account{
			ID: newID(), Identity: pay.Identity{Issuer: "https://id.example.com", Subject: subject, Name: "Ada Lovelace", Email: "ada@example.com"},
			OrganizationID: org, Created: noon, SignedIn: noon,
		},
		Key: pay.NewKey{Key: pay.Key{ID: newID(), OrganizationID: org, Created: noon}, Secret: "pk_" + newID()},
	}
}

func enrolled(t testing.TB, d *DB, subject string) pay.Account {
	t.Helper()
	a, _, err := d.Enroll(t.Context(), enrollment(subject))
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func session(n int) pay.Session {
	return pay.Session{ID: fmt.Sprintf("%064d", n), Data: []byte("person in session"), Expires: noon.Add(time.Duration(n) * time.Minute)}
}

func putSessions(t testing.TB, d *DB, from, to int) {
	t.Helper()
	for n := from; n < to; n++ {
		if err := d.PutSession(t.Context(), session(n)); err != nil {
			t.Fatal(err)
		}
	}
}

func hasSession(t testing.TB, d *DB, n int) bool {
	t.Helper()
	_, err := d.Session(t.Context(), session(n).ID)
	if err != nil && !errors.Is(err, pay.ErrSessionNotFound) {
		t.Fatal(err)
	}
	return err == nil
}

// The file shows neither the name and address of a person nor the data of a session.
func TestPersonsAreSealed(t *testing.T) {
	t.Parallel()
	o := inFolder(t.TempDir())
	d := openIn(t, o)
	a := enrolled(t, d, "ada")
	putSessions(t, d, 0, 3)
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(o.Path)
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{"Ada Lovelace", "ada@example.com", "person in session", "pk_"} {
		if bytes.Contains(text, []byte(secret)) {
			t.Errorf("the file has %q", secret)
		}
	}
	if !bytes.Contains(text, []byte(a.ID)) {
		t.Error("the file does not have the account: the test looks at nothing")
	}
}

// When there are too many sessions, those that would expire first go.
func TestSessionsAreBounded(t *testing.T) {
	t.Parallel()
	d := openIn(t, inFolder(t.TempDir()))
	d.maxSessions = 10
	putSessions(t, d, 10, 20)
	if err := d.PutSession(t.Context(), session(15)); err != nil { // replaced: there is no other one
		t.Fatal(err)
	}
	if !hasSession(t, d, 10) {
		t.Fatal("replacing a session made room")
	}
	putSessions(t, d, 5, 6) // one that expires before all others, as those of visitors do
	if hasSession(t, d, 10) || !hasSession(t, d, 5) {
		t.Error("it is not the one that expires first that went")
	}
	putSessions(t, d, 20, 22)
	for n, want := range map[int]bool{5: false, 10: false, 11: false, 12: true, 21: true} {
		if hasSession(t, d, n) != want {
			t.Errorf("session %d: %t", n, !want)
		}
	}
	d.maxSessions = 3 // as after an upgrade to a smaller bound
	putSessions(t, d, 30, 31)
	checked(t, d)
	n := 0
	for i := range 40 {
		if hasSession(t, d, i) {
			n++
		}
	}
	if n != 3 {
		t.Errorf("%d sessions", n)
	}
}

// Looking for sessions whose time is over writes nothing while there are none.
func TestSweepingNothingWritesNothing(t *testing.T) {
	t.Parallel()
	d := openIn(t, inFolder(t.TempDir()))
	putSessions(t, d, 1, 3)
	var commits atomic.Int64
	count := func(commit func() error) error { commits.Add(1); return commit() }
	d.hooks.commit.Store(&count)
	for range 10 {
		if n, err := d.ExpireSessions(t.Context(), noon, 100); n != 0 || err != nil {
			t.Fatalf("%d, %v", n, err)
		}
		if err := d.DeleteSession(t.Context(), session(9).ID); err != nil {
			t.Fatal(err)
		}
	}
	if commits.Load() != 0 {
		t.Errorf("%d commits", commits.Load())
	}
	if n, err := d.ExpireSessions(t.Context(), noon.Add(time.Hour), 100); n != 2 || err != nil || commits.Load() != 1 {
		t.Errorf("%d, %v, %d commits", n, err, commits.Load())
	}
}

// While disk is short nothing is added, and whatever ends something works.
func TestAccountsOnAShortDisk(t *testing.T) {
	t.Parallel()
	var free atomic.Uint64
	free.Store(math.MaxUint64)
	o := inFolder(t.TempDir())
	o.MinFree, o.FreeSpace = 1000, func(string) (uint64, error) { return free.Load(), nil }
	d := openIn(t, o)
	ctx := t.Context()
	a := enrolled(t, d, "ada")
	putSessions(t, d, 0, 3)
	if _, err := d.CreateKey(ctx, pay.NewKey{Key: pay.Key{ID: "k"}, Secret: "pk_unclaimed"}); err != nil {
		t.Fatal(err)
	}
	free.Store(999)
	eventually(t, "the store notices", func() bool { return d.Health(ctx) != nil })
	_, _, err := d.Enroll(ctx, enrollment("ada"))
	wantError(t, err, pay.ErrUnavailable)
	_, _, err = d.Enroll(ctx, enrollment("bob"))
	wantError(t, err, pay.ErrUnavailable)
	wantError(t, d.PutSession(ctx, session(9)), pay.ErrUnavailable)
	_, err = d.LinkKey(ctx, pay.Link{Secret: "pk_unclaimed", OrganizationID: a.OrganizationID})
	wantError(t, err, pay.ErrUnavailable)

	wantError(t, d.DeleteSession(ctx, session(0).ID), nil)
	if n, err := d.ExpireSessions(ctx, noon.Add(time.Minute), 10); n != 1 || err != nil {
		t.Errorf("%d swept, %v", n, err)
	}
	if got, err := d.EndSessions(ctx, a.ID); err != nil || got.Generation != 1 || got.Email != "ada@example.com" {
		t.Errorf("%+v, %v", got, err)
	}
	if _, err := d.Session(ctx, session(2).ID); err != nil {
		t.Error(err)
	}
	checked(t, d)
}

// An outage refuses all of it, and leaves what was there.
func TestAccountsInAnOutage(t *testing.T) {
	t.Parallel()
	for name, failure := range map[string]func(func() error) error{"nothing written": nothingWritten, "all written": allWritten} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := openIn(t, inFolder(t.TempDir()))
			ctx := t.Context()
			a := enrolled(t, d, "ada")
			putSessions(t, d, 0, 3)
			if _, err := d.CreateKey(ctx, pay.NewKey{Key: pay.Key{ID: "k"}, Secret: "pk_unclaimed"}); err != nil {
				t.Fatal(err)
			}
			broken(d, failure)
			link := pay.Link{Secret: "pk_unclaimed", OrganizationID: a.OrganizationID}
			for what, try := range map[string]func() error{
				"enroll": func() error { _, _, err := d.Enroll(ctx, enrollment("bob")); return err },
				"link":   func() error { _, err := d.LinkKey(ctx, link); return err },
				"put":    func() error { return d.PutSession(ctx, session(9)) },
				"delete": func() error { return d.DeleteSession(ctx, session(1).ID) },
				"end":    func() error { _, err := d.EndSessions(ctx, a.ID); return err },
				"plan":   func() error { _, err := d.SetPlan(ctx, a.OrganizationID, pay.PlanAgency); return err },
			} {
				if err := try(); !errors.Is(err, pay.ErrUnavailable) {
					t.Errorf("%s: %v", what, err)
				}
			}
			repaired(t, d)
			if got, err := d.Account(ctx, a.ID); err != nil || got.Subject != "ada" {
				t.Errorf("%+v, %v", got, err)
			}
			// What was refused may have been written all the same; trying again ends well.
			if _, _, err := d.Enroll(ctx, enrollment("bob")); err != nil {
				t.Error(err)
			}
			if _, err := d.LinkKey(ctx, link); err != nil && !errors.Is(err, pay.ErrKeyLinked) {
				t.Error(err)
			}
			checked(t, d)
		})
	}
}

// A restored store knows its accounts, and has no sessions: a visitor who has signed out since the
// backup would be signed in again.
func TestRestoreEndsSessions(t *testing.T) {
	t.Parallel()
	d := openIn(t, inFolder(t.TempDir()))
	a := enrolled(t, d, "ada")
	putSessions(t, d, 0, 5)
	o := backedUp(t, d, Mark{At: noon})
	if err := d.DeleteSession(t.Context(), session(3).ID); err != nil {
		t.Fatal(err)
	}
	restored := openIn(t, o)
	for n := range 5 {
		if hasSession(t, restored, n) {
			t.Errorf("session %d is back", n)
		}
	}
	if got, err := restored.Account(t.Context(), a.ID); err != nil || got.Name != a.Name {
		t.Errorf("%+v, %v", got, err)
	}
	checked(t, restored)
	putSessions(t, restored, 0, 2)
	if err := restored.Close(); err != nil {
		t.Fatal(err)
	}
	again := openIn(t, o) // opening it once more is no restore
	if !hasSession(t, again, 1) {
		t.Error("a session that began after the restore is gone")
	}
	checked(t, again)
}

// Check and compaction know all of it.
func TestCheckOfAccounts(t *testing.T) {
	t.Parallel()
	o := inFolder(t.TempDir())
	d := openIn(t, o)
	enrolled(t, d, "ada")
	enrolled(t, d, "bob")
	putSessions(t, d, 1, 4)
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Compact(t.Context(), o.Path); err != nil {
		t.Fatal(err)
	}
	sound(t, o.Path)
	text, err := os.ReadFile(o.Path)
	if err != nil {
		t.Fatal(err)
	}
	first := func(tx *bbolt.Tx, bucket []byte) (k, v []byte) { return tx.Bucket(bucket).Cursor().First() }
	remove := func(bucket []byte) func(*bbolt.Tx) error {
		return func(tx *bbolt.Tx) error { k, _ := first(tx, bucket); return tx.Bucket(bucket).Delete(k) }
	}
	put := func(bucket []byte, key, value string) func(*bbolt.Tx) error {
		return func(tx *bbolt.Tx) error { return tx.Bucket(bucket).Put([]byte(key), []byte(value)) }
	}
	edit := func(change func(*codec.Account)) func(*bbolt.Tx) error {
		return func(tx *bbolt.Tx) error {
			k, _ := first(tx, accountsBucket)
			row, err := accountIn(tx, string(k))
			if err != nil {
				return err
			}
			change(&row)
			encoded, err := encodeRow(row)
			return errors.Join(err, tx.Bucket(accountsBucket).Put(k, encoded))
		}
	}
	for _, c := range []struct {
		name string
		do   func(*bbolt.Tx) error
		text string
	}{
		{"account lost", remove(accountsBucket), "which is not its own"},
		{"account of an unknown encoding", put(accountsBucket, "x", "\xffx"), "unknown encoding"},
		{"account under another id", func(tx *bbolt.Tx) error {
			_, v := first(tx, accountsBucket)
			return tx.Bucket(accountsBucket).Put([]byte("x"), bytes.Clone(v))
		}, "is stored as x"},
		{"identity lost", remove(identitiesBucket), "not found by its identity"},
		{"identity of no account", put(identitiesBucket, "x", "unknown"), "leads to account unknown"},
		{"identity of another", func(tx *bbolt.Tx) error {
			_, v := first(tx, identitiesBucket)
			return tx.Bucket(identitiesBucket).Put([]byte("x"), bytes.Clone(v))
		}, "which is not its own"},
		{"organization lost", remove(orgsBucket), "which is not there"},
		{"another subject", edit(func(a *codec.Account) { a.Subject = "eve" }), "not found by its identity"},
		{"another organization", edit(func(a *codec.Account) { a.OrganizationID = "org" }), "organization org, which is not there"},
		{"an organization of two", func(tx *bbolt.Tx) error {
			last, _ := tx.Bucket(accountsBucket).Cursor().Last()
			other, err := accountIn(tx, string(last))
			return errors.Join(err, edit(func(a *codec.Account) { a.OrganizationID = other.OrganizationID })(tx))
		}, "have one organization"},
		{"person unreadable", edit(func(a *codec.Account) { a.Person[9] ^= 1 }), "secret of account"},
		{"session lost", remove(sessionsBucket), "not its own"},
		{"session unlisted", remove(sessionsExpiryBucket), "not listed by when it expires"},
		{"session of an unknown encoding", put(sessionsBucket, "x", "\xffx"), "unknown encoding"},
		{"session of nothing", put(sessionsExpiryBucket, encodeTime(noon)+"\x00none", ""), "not its own"},
		{"session listed at another time", put(sessionsExpiryBucket, encodeTime(noon)+"\x00"+session(1).ID, ""), "not its own"},
		{"entry too short", put(sessionsExpiryBucket, "x", ""), "too short"},
		{"session unreadable", func(tx *bbolt.Tx) error {
			k, _ := first(tx, sessionsBucket)
			row, err := encodeRow(sessionRow{Expires: noon.Add(time.Minute), Data: []byte("0123456789")})
			return errors.Join(err, tx.Bucket(sessionsBucket).Put(k, row))
		}, "secret of a session"},
		{"count", put(metaBucket, "sessions", "7"), "there are 3 sessions, counted are 7"},
		{"count that is none", put(metaBucket, "sessions", "x"), "count of sessions"},
	} {
		if err := os.WriteFile(o.Path, text, 0o600); err != nil {
			t.Fatal(err)
		}
		inside(t, o.Path, c.do)
		wantFault(t, c.name, o.Path, c.text)
	}
}
