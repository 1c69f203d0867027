package adminapi

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/purserpay/purser/internal/keystore"
	"github.com/purserpay/purser/pay"
)

// NewExport is the body of POST /purser/wallets/{id}/export. The command makes a keystore of the key
// itself: a passphrase never leaves the terminal's process, and no scrypt runs beside payments.
type NewExport struct {
	Public []byte `json:"public"` // of a [keystore.Receiver]
}

// Export is its answer.
type Export struct {
	Wallet Wallet `json:"wallet"`
	// Sealed opens with the receiver and ExportPurpose: the private key, 32 bytes.
	Sealed []byte `json:"sealed"`
}

// ExportPurpose names what a key is sealed for.
func ExportPurpose(walletID string) string { return "export/" + walletID }

func (p *Purser) exportWallet(r *http.Request, want NewExport) (any, error) {
	w, err := p.findWallet(r.Context(), r.PathValue("id"))
	if err != nil {
		return nil, err
	}
	// Known before the audit has an export.
	if _, err := keystore.Seal(want.Public, nil, ExportPurpose(w.ID)); err != nil {
		return nil, Errorf(http.StatusBadRequest, "public: %w", err)
	}
	secret, err := p.Books.ExportWallet(r.Context(), w.ID)
	if errors.Is(err, pay.ErrNoSecret) {
		return nil, Errorf(http.StatusConflict, "the key of wallet %s (%s) is not in purser: its provider keeps it, or it has none", w.ID, w.ProviderID)
	}
	if err != nil {
		return nil, err
	}
	defer clear(secret)
	sealed, err := keystore.Seal(want.Public, secret, ExportPurpose(w.ID))
	if err != nil {
		return nil, err
	}
	return Export{unaskedWallet(w, "it was not asked for"), sealed}, nil
}

// ImportOffer answers GET /purser/wallets/import: what a key is sealed to.
type ImportOffer struct {
	Public []byte `json:"public"`
}

// NewImport is the body of POST /purser/wallets/import.
type NewImport struct {
	Key     string `json:"key"`     // whose wallet it becomes
	Network string `json:"network"` // default: the first one that is configured
	Sealed  []byte `json:"sealed"`  // to the offer's key, with ImportPurpose
}

// ImportPurpose names what a key is sealed for.
const ImportPurpose = "import"

// receiver returns the process's receiver of keys. It is made when it is first asked for.
func (h *Handler) receiver() (*keystore.Receiver, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.imports == nil {
		var err error
		if h.imports, err = keystore.NewReceiver(); err != nil {
			return nil, err
		}
	}
	return h.imports, nil
}

func (h *Handler) offerImport(*Purser, *http.Request) (any, error) {
	to, err := h.receiver()
	if err != nil {
		return nil, err
	}
	return ImportOffer{to.Public()}, nil
}

func (h *Handler) importWallet(p *Purser, r *http.Request, want NewImport) (any, error) {
	network, err := p.walletNetwork(want.Network)
	if err != nil {
		return nil, err
	}
	k, err := p.find(r.Context(), want.Key)
	if err != nil {
		return nil, err
	}
	from, err := h.receiver()
	if err != nil {
		return nil, err
	}
	secret, err := from.Open(want.Sealed, ImportPurpose)
	if err != nil {
		return nil, Errorf(http.StatusConflict, "%w; was purser reloaded meanwhile? Try again", err)
	}
	defer clear(secret)
	w, err := p.Books.ImportWallet(r.Context(), k, network, secret)
	if errors.Is(err, pay.ErrAddressTaken) {
		taken, err := p.Books.WalletByAddress(r.Context(), *w.Address)
		if err != nil {
			return nil, err
		}
		return nil, Errorf(http.StatusConflict, "%s", takenText(taken))
	}
	if err != nil {
		return nil, err
	}
	return created{p.shownWallets(r.Context(), []pay.Wallet{w})[0]}, nil
}

func takenText(w pay.Wallet) string {
	text := fmt.Sprintf("this key is in purser already: %s is wallet %s of key %s", w.Address, w.ID, w.KeyID)
	if w.Deleted != nil {
		return text + fmt.Sprintf(", which was deleted: 'purser wallets restore %s'", w.ID)
	}
	return text + fmt.Sprintf("; 'purser wallets share %s --with KEY' lets another key draw from it", w.ID)
}
