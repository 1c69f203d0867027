package cli

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"

	"github.com/spf13/cobra"

	"github.com/purserpay/purser/internal/adminapi"
	"github.com/purserpay/purser/internal/keystore"
)

const walletsExportHelp = `
Writes the private key of a wallet as a keystore, the encrypted JSON that go-ethereum, MetaMask
and other wallets import. The passphrase is asked for twice on the terminal, or read from a
file. It protects the key from then on: who has the file and the passphrase has the money.

WALLET is the id of a wallet, its first 8 or more characters, or its address. A deleted wallet
can be exported as well. The key of a wallet that another provider than local has made is not
in purser.

purser goes on paying with the wallet. While another program spends from it too, payments may
fail: purser reserves what it has seen. The export is in the audit.

    $ purser wallets export 0199… --out wallet.json
    $ purser wallets export 0x857b… --passphrase-file phrase.txt > wallet.json`

const walletsImportHelp = `
Makes a wallet of a keystore that another wallet has written (Web3 Secret Storage, version 3, as
go-ethereum, MetaMask and 'purser wallets export' write it). Its passphrase is asked for on the
terminal, or read from a file. FILE is - for standard input.

The key KEY owns the wallet. Of several wallets of a key on a network the oldest pays: so delete
the one before, if this one is to pay. One address has one wallet, on one network. Never let two pursers pay from one wallet.

    $ purser wallets import wallet.json --key exec
    $ purser wallets import wallet.json --key research --network base-sepolia --json`

func exportWalletCommand(wallets *asking) {
	a := wallets.sub("export WALLET", "Writes a wallet's key as an encrypted keystore", walletsExportHelp, cobra.ExactArgs(1))
	out := a.Flags().String("out", "", "file to write, which must not exist; only you may read it (default: standard output)")
	file := passphraseFlag(a.Command)
	a.changes("write the key of the wallet {} as an encrypted keystore, which the audit log has")
	a.jsonFlag("with --out: print JSON that says what was exported")
	a.ValidArgsFunction = a.env.walletIDs("")
	a.runs(func(args []string) error {
		if err := checkID("WALLET", args[0]); err != nil {
			return err
		}
		if a.json.on && *out == "" {
			return errors.New("--json: the keystore itself is the JSON on standard output; --json takes --out")
		}
		if a.dry.on {
			return &unsentError{walletPath(args[0])}
		}
		to, done, err := a.newFile("--out", *out)
		if err != nil {
			return err
		}
		told, err := a.export(args[0], *file, to)
		if err = done(err); err != nil || *out == "" {
			return err
		}
		told.File = *out
		return show(a.OutOrStdout(), a.json, told, func(t *table, e exported) {
			t.row("wallet", e.Wallet)
			t.row("network", e.Network)
			t.row("address", e.Address)
			t.row("keystore", e.File)
		})
	})
}

// exported tells what was written.
type exported struct {
	Wallet  string `json:"wallet"`
	Network string `json:"network"`
	Address string `json:"address"`
	File    string `json:"file"`
}

// newFile makes a file that only its owner may read; "" is standard output. done closes it, and removes
// it after an error.
func (a *asking) newFile(flag, name string) (to io.Writer, done func(error) error, err error) {
	if name == "" {
		return a.OutOrStdout(), func(err error) error { return err }, nil
	}
	f, err := os.OpenFile(a.env.path(name), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600) // it holds a key
	if errors.Is(err, fs.ErrExist) {
		return nil, nil, fmt.Errorf("%s: there is a %s already, and it is not written over", flag, name)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", flag, err)
	}
	return f, func(failed error) error {
		if failed == nil {
			failed = f.Sync()
		}
		if err := errors.Join(failed, f.Close()); err != nil {
			return errors.Join(err, os.Remove(f.Name()))
		}
		return nil
	}, nil
}

// export asks for a key and writes it as a keystore. The passphrase is known before purser is asked: the
// audit has no export that was given up.
func (a *asking) export(name, passphraseFile string, to io.Writer) (told exported, err error) {
	passphrase, err := a.env.passphrase(a.Command, passphraseFile, true)
	if err != nil {
		return told, err
	}
	receiver, err := keystore.NewReceiver()
	if err != nil {
		return told, err
	}
	var answer adminapi.Export
	err = a.client.call(a.Context(), http.MethodPost, walletPath(name)+"/export", adminapi.NewExport{Public: receiver.Public()}, &answer)
	if err != nil {
		return told, err
	}
	secret, err := receiver.Open(answer.Sealed, adminapi.ExportPurpose(answer.Wallet.ID))
	if err != nil {
		return told, a.client.misunderstood(err)
	}
	defer clear(secret)
	text, err := keystore.Encrypt(secret, passphrase)
	if err != nil {
		return told, err
	}
	told = exported{Wallet: answer.Wallet.ID, Network: answer.Wallet.Network}
	if answer.Wallet.Address != nil {
		told.Address = *answer.Wallet.Address
	}
	_, err = to.Write(append(text, '\n'))
	return told, err
}

func importWalletCommand(wallets *asking) {
	a := wallets.sub("import FILE --key KEY", "Makes a wallet of an encrypted keystore", walletsImportHelp, cobra.ExactArgs(1))
	a.keyFlag("whose wallet it becomes: id or label of the key, or exec")
	network := a.networkFlag("network of the wallet")
	file := passphraseFlag(a.Command)
	a.changes("make a wallet of the keystore, for the key {}")
	a.jsonFlag(printsJSON)
	a.runs(func(args []string) error {
		if a.key == "" {
			return errors.New("whose wallet? --key takes the id or label of a key, or exec ('purser keys' lists them)")
		}
		text, err := a.readKeystore(args[0])
		if err != nil {
			return err
		}
		passphrase, err := a.env.passphrase(a.Command, *file, false)
		if err != nil {
			return err
		}
		secret, err := keystore.Decrypt(text, passphrase)
		if err != nil {
			return fmt.Errorf("%s: %w", args[0], err)
		}
		defer clear(secret)
		var offer adminapi.ImportOffer
		if err := a.client.call(a.Context(), http.MethodGet, "/purser/wallets/import", nil, &offer); err != nil {
			return err
		}
		sealed, err := keystore.Seal(offer.Public, secret, adminapi.ImportPurpose)
		if err != nil {
			return a.client.misunderstood(err)
		}
		body := adminapi.NewImport{Key: a.key, Network: *network, Sealed: sealed}
		return tell(a, http.MethodPost, "/purser/wallets/import", body, writeWallet)
	})
}

// readKeystore reads a file, or standard input.
func (a *asking) readKeystore(name string) ([]byte, error) {
	from := a.InOrStdin()
	if name != "-" {
		f, err := os.Open(a.env.path(name))
		if err != nil {
			return nil, err
		}
		defer func() { _ = f.Close() }()
		from = f
	}
	text, err := io.ReadAll(io.LimitReader(from, keystore.MaxSize+1))
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", name, err)
	}
	return text, nil
}
