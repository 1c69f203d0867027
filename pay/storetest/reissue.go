package storetest

import (
	"errors"
	"time"

	"github.com/purserpay/purser/pay"
)

var reissueTests = map[string]func(*fixture){
	"another secret": func(f *fixture) {
		n := newKey("")
		k := must(f.CreateKey(f.ctx, n))
		w := newWallet(k)
		f.must(f.CreateWallet(f.ctx, w, 1))
		now := must(f.ReissueKey(f.ctx, pay.Reissue{KeyID: k.ID, Secret: "pk_second", At: noon}))
		if now.ID != k.ID || !now.Reissued.Equal(noon) {
			f.Fatalf("%+v", now)
		}
		_, err := f.KeyBySecret(f.ctx, n.Secret)
		f.fails(err, pay.ErrSecretReplaced)
		f.fails(err, pay.ErrKeyNotFound)
		f.same("key", must(f.KeyBySecret(f.ctx, "pk_second")), now)
		f.same("wallets", must(f.Wallets(f.ctx, k.ID)), []pay.Wallet{w.Wallet})
		again := newKey("")
		again.Secret = n.Secret // for ever
		_, err = f.CreateKey(f.ctx, again)
		f.fails(err, pay.ErrKeyExists)
		_, err = f.ReissueKey(f.ctx, pay.Reissue{KeyID: k.ID, Secret: n.Secret, At: noon})
		f.fails(err, pay.ErrKeyExists)
		_, err = f.ReissueKey(f.ctx, pay.Reissue{KeyID: k.ID, Secret: "pk_second", At: noon})
		f.fails(err, pay.ErrKeyExists)
		must(f.ReissueKey(f.ctx, pay.Reissue{KeyID: k.ID, Secret: "pk_third", At: noon}))
		_, err = f.KeyBySecret(f.ctx, "pk_second")
		f.fails(err, pay.ErrSecretReplaced)
		_, err = f.RevealKey(f.ctx, k.ID)
		f.fails(err, pay.ErrNotRevealable)
	},
	"overlap": func(f *fixture) {
		n := newKey("org")
		k := must(f.CreateKey(f.ctx, n))
		first := func(overlap time.Duration, secret string) pay.Key {
			return must(f.ReissueKey(f.ctx, pay.Reissue{KeyID: k.ID, Secret: secret, At: noon, Overlap: overlap}))
		}
		now := first(time.Hour, "pk_second")
		end := noon.Add(time.Hour)
		// finds asks a store as a purser at a time does, which is not the store's own.
		finds := func(at time.Time, secret string) pay.Key {
			f.Helper()
			k, err := f.KeyBySecret(f.ctx, secret)
			k, err = pay.Found(k, err, at)
			f.must(err)
			f.same("key", k, now)
			return k
		}
		ended := func(at time.Time, secret string) {
			f.Helper()
			k, err := f.KeyBySecret(f.ctx, secret)
			f.fails(err, pay.ErrSecretReplaced) // to a caller that does not ask for the overlap
			_, err = pay.Found(k, err, at)
			f.fails(err, pay.ErrSecretReplaced)
		}
		if got := finds(end.Add(-1), n.Secret); !got.Ends.Equal(end) || !got.EarlierUntil(end.Add(-1)).Equal(end) {
			f.Errorf("the earlier secret ends %v", got.Ends)
		}
		if got := finds(end, "pk_second"); !got.Ends.IsZero() || !got.EarlierUntil(end).IsZero() {
			f.Errorf("the present secret ends %v", got.Ends)
		}
		ended(end, n.Secret)
		f.same("revealed", must(f.RevealKey(f.ctx, k.ID)), "pk_second")
		_, err := f.CreateKey(f.ctx, pay.NewKey{Key: newKey("").Key, Secret: n.Secret, Plans: n.Plans})
		f.fails(err, pay.ErrKeyExists)
		_, err = f.LinkKey(f.ctx, pay.Link{Secret: n.Secret, OrganizationID: "other", Plans: n.Plans})
		f.fails(err, pay.ErrKeyNotFound)
		must(f.StopKey(f.ctx, k.ID, pay.KeyStop{Do: pay.StopPause, At: noon})) // writes the row anew
		now = must(f.StopKey(f.ctx, k.ID, pay.KeyStop{Do: pay.StopResume, At: noon}))
		finds(noon, n.Secret)

		// At most two secrets work.
		now = first(2*time.Hour, "pk_third")
		ended(noon, n.Secret)
		finds(noon, "pk_second")
		finds(noon, "pk_third")
		now = first(0, "pk_fourth")
		ended(noon, "pk_second")
		ended(noon, "pk_third")
		finds(noon, "pk_fourth")

		// An overlap ends early, once.
		now = first(time.Hour, "pk_fifth")
		finds(noon, "pk_fourth")
		by := pay.WithActor(f.ctx, pay.Operator("ada"))
		now = must(f.StopKey(by, k.ID, pay.KeyStop{Do: pay.StopOverlap, At: noon}))
		f.same("again", must(f.StopKey(by, k.ID, pay.KeyStop{Do: pay.StopOverlap, At: noon})), now)
		ended(noon, "pk_fourth")
		finds(noon, "pk_fifth")
		entries := must(f.AuditEntries(f.ctx, pay.AuditQuery{KeyID: k.ID, Limit: 10}))
		if len(entries) != 1 || entries[0].Action != pay.ActionKeyEndOverlap {
			f.Errorf("audit %s", text(entries))
		}

		// The end of the key ends both.
		first(time.Hour, "pk_sixth")
		now = must(f.StopKey(f.ctx, k.ID, pay.KeyStop{Do: pay.StopRevoke, At: noon}))
		ended(noon, "pk_fifth")
		finds(noon, "pk_sixth") // revoked, as callers see
		f.check()
	},
	"overlap out of bounds": func(f *fixture) {
		n := newKey("")
		k := must(f.CreateKey(f.ctx, n))
		for _, overlap := range []time.Duration{-time.Hour, time.Second, pay.MaxOverlap + 1} {
			_, err := f.ReissueKey(f.ctx, pay.Reissue{KeyID: k.ID, Secret: "pk_second", At: noon, Overlap: overlap})
			if _, is := errors.AsType[*pay.InputError](err); !is {
				f.Errorf("%v: %v", overlap, err)
			}
		}
		f.same("key", must(f.KeyBySecret(f.ctx, n.Secret)), k)
	},
	"refused": func(f *fixture) {
		_, err := f.ReissueKey(f.ctx, pay.Reissue{KeyID: newID(), Secret: "pk_second", At: noon})
		f.fails(err, pay.ErrKeyNotFound)
		n := newKey("")
		k := must(f.CreateKey(f.ctx, n))
		must(f.StopKey(f.ctx, k.ID, pay.KeyStop{Do: pay.StopRevoke, At: noon}))
		_, err = f.ReissueKey(f.ctx, pay.Reissue{KeyID: k.ID, Secret: "pk_second", At: noon})
		f.fails(err, pay.ErrKeyRevoked)
		must(f.KeyBySecret(f.ctx, n.Secret))
	},
	"of a claimed key": func(f *fixture) {
		k := f.claimed("org")
		must(f.ReissueKey(f.ctx, pay.Reissue{KeyID: k.ID, Secret: "pk_second", At: noon}))
		f.same("revealed", must(f.RevealKey(f.ctx, k.ID)), "pk_second")
		f.same("keys", len(must(f.OrganizationKeys(f.ctx, "org"))), 1)
	},
	"at once": func(f *fixture) {
		k := f.key()
		errs := together(crowd, func(int) error {
			_, err := f.ReissueKey(f.ctx, pay.Reissue{KeyID: k.ID, Secret: "pk_second", At: noon})
			return err
		})
		f.same("reissued", f.succeeded(errs, pay.ErrKeyExists), 1)
	},
	"the exec key": func(f *fixture) {
		_, err := f.ExecKey(f.ctx)
		f.fails(err, pay.ErrKeyNotFound)
		make := func(int) error {
			n := newKey("")
			n.Exec = true
			_, err := f.CreateKey(f.ctx, n)
			return err
		}
		f.same("made", f.succeeded(together(crowd, make), pay.ErrKeyExists), 1)
		k := must(f.ExecKey(f.ctx))
		f.same("key", must(f.KeyBySecret(f.ctx, must(f.RevealKey(f.ctx, k.ID)))), k)
		must(f.ReissueKey(f.ctx, pay.Reissue{KeyID: k.ID, Secret: "pk_second", At: noon}))
		f.same("revealed", must(f.RevealKey(f.ctx, k.ID)), "pk_second")
		must(f.StopKey(f.ctx, k.ID, pay.KeyStop{Do: pay.StopRevoke, At: noon}))
		f.same("revoked", must(f.ExecKey(f.ctx)).ID, k.ID)
		f.must(make(0))
		if next := must(f.ExecKey(f.ctx)); next.ID == k.ID || next.Revoked() {
			f.Fatalf("%+v", next)
		}
		f.check()
	},
	"restored": func(f *fixture) {
		k := f.key()
		w := newWallet(k)
		f.must(f.CreateWallet(f.ctx, w, 1))
		_, err := f.RestoreWallet(f.ctx, w.ID)
		f.fails(err, pay.ErrWalletLive)
		_, err = f.RestoreWallet(f.ctx, newID())
		f.fails(err, pay.ErrWalletNotFound)
		f.must(f.DeleteWallet(f.ctx, k.ID, w.ID, noon))
		f.must(f.CreateWallet(f.ctx, newWallet(k), 1))
		f.same("restored", must(f.RestoreWallet(f.ctx, w.ID)), w.Wallet) // past the limit, too
		list := must(f.Wallets(f.ctx, k.ID))
		f.same("wallets", list[0], w.Wallet)
		f.same("count", must(f.WalletCount(f.ctx, k)), 2)
		f.must(f.DeleteWallet(f.ctx, k.ID, w.ID, noon))
	},
	"exported": func(f *fixture) {
		k := f.key()
		w := newWallet(k)
		f.must(f.CreateWallet(f.ctx, w, 1))
		f.must(f.DeleteWallet(f.ctx, k.ID, w.ID, noon)) // its money is still there
		by := pay.WithActor(f.ctx, pay.Operator("ada"))
		f.same("secret", must(f.ExportWallet(by, w.ID)), w.Secret)
		entries := must(f.AuditEntries(f.ctx, pay.AuditQuery{KeyID: k.ID, Limit: 10}))
		if len(entries) != 1 || entries[0].Action != pay.ActionWalletExport || entries[0].WalletID != w.ID {
			f.Fatalf("audit %s", text(entries))
		}
		_, err := f.ExportWallet(by, newID())
		f.fails(err, pay.ErrWalletNotFound)
	},
}
