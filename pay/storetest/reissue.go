package storetest

import (
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
