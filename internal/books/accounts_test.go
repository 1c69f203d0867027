package books_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/purserpay/purser/internal/books"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/pay/memory"
	"github.com/purserpay/purser/signer"
)

// Issuer and subject name an account, whatever else the provider says. Names that do not fit are cut.
func TestSignIn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	began := w.now()
	who := pay.Identity{Issuer: "https://id.example.com", Subject: "ada", Name: " A\x00da\n\xff" + strings.Repeat("é", 300), Email: "a@example.com\r\nBcc: x"}
	a, first, err := w.SignIn(t.Context(), who)
	if err != nil || !first {
		t.Fatalf("%t, %v", first, err)
	}
	if !strings.HasPrefix(a.OrganizationID, "org_") || len(a.OrganizationID) != 4+36 || a.Issuer != who.Issuer || a.Subject != who.Subject ||
		a.Name != "A da "+strings.Repeat("é", 195) || a.Email != "a@example.com  Bcc: x" || !a.Created.Equal(began) || !a.SignedIn.Equal(began) {
		t.Errorf("%+v", a)
	}
	w.advance(time.Hour)
	again, first, err := w.SignIn(t.Context(), pay.Identity{Issuer: who.Issuer, Subject: "ada"})
	if err != nil || first || again.ID != a.ID || again.OrganizationID != a.OrganizationID || again.Name != "" || !again.SignedIn.Equal(w.now()) || !again.Created.Equal(began) {
		t.Errorf("%+v, %t, %v", again, first, err)
	}
	u, err := w.Usage(t.Context(), a.OrganizationID)
	if err != nil || u.Keys != 1 || u.Wallets != 0 || u.Payments != 0 || u.Plan.Name != pay.PlanFree {
		t.Errorf("%+v, %v", u, err)
	}
	for _, bad := range []pay.Identity{
		{Subject: "ada"}, {Issuer: who.Issuer}, {Issuer: who.Issuer, Subject: "\xff"}, {Issuer: "\xff", Subject: "x"}, {Issuer: strings.Repeat("i", 2049), Subject: "x"}, {Issuer: who.Issuer, Subject: strings.Repeat("s", 1025)},
	} {
		_, _, err := w.SignIn(t.Context(), bad)
		if _, is := errors.AsType[*pay.InputError](err); !is {
			t.Errorf("error %v", err)
		}
	}
	for _, id := range []string{"", "token", strings.Repeat("g", 64), strings.Repeat("0", 62)} {
		err := w.PutSession(t.Context(), pay.Session{ID: id, Expires: w.now()})
		if _, is := errors.AsType[*pay.InputError](err); !is {
			t.Errorf("session %q: %v", id, err)
		}
	}
	if _, err := w.SetPlan(t.Context(), a.OrganizationID, "GOLD"); err == nil {
		t.Error("there is a plan GOLD")
	}
	if org, err := w.SetPlan(t.Context(), a.OrganizationID, "agency"); err != nil || org.Plan != pay.PlanAgency {
		t.Errorf("%+v, %v", org, err)
	}
}

func TestExpiredSessionsAreSwept(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := memory.New(memory.Options{})
		b, err := books.New(books.Options{Store: store, Wallets: signer.None{}})
		if err != nil {
			t.Fatal(err)
		}
		id := func(digit string) string { return strings.Repeat(digit, 64) }
		for digit, lasts := range map[string]time.Duration{"a": 30 * time.Second, "b": 90 * time.Second, "c": time.Hour} {
			if err := b.PutSession(t.Context(), pay.Session{ID: id(digit), Expires: time.Now().Add(lasts)}); err != nil {
				t.Fatal(err)
			}
		}
		ctx, stop := context.WithCancel(t.Context())
		go b.Sweep(ctx)
		stored := func(want string) {
			t.Helper()
			synctest.Wait()
			for _, digit := range []string{"a", "b", "c"} {
				_, err := store.Session(t.Context(), id(digit))
				if is := err == nil; is != strings.Contains(want, digit) {
					t.Errorf("session %s is stored: %t", digit, is)
				}
			}
		}
		stored("abc")
		time.Sleep(45 * time.Second)
		if _, err := b.Session(t.Context(), id("a")); !errors.Is(err, pay.ErrSessionNotFound) {
			t.Errorf("an expired session before the sweep: %v", err)
		}
		stored("abc")
		time.Sleep(time.Minute)
		stored("bc")
		time.Sleep(time.Minute)
		stored("c")
		stop()
		synctest.Wait()
	})
}
