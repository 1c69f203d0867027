package installation

import (
	"cmp"
	"context"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/purserpay/purser/boltstore"
	"github.com/purserpay/purser/internal/adminapi"
	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/x402"
)

const (
	// roomFail and roomWarn are free bytes where the store lies. purser takes no payments below 64 MiB
	// unless PURSER_BOLT_MIN_FREE says otherwise; the journal and a backup need more.
	roomFail = 64 << 20
	roomWarn = 512 << 20
	// authoritySoon is the time before the end of the interception's root in which it is told.
	authoritySoon = 90 * 24 * time.Hour
)

func (e *examination) dataDir() string {
	return e.Path(e.value(e.app.DataDir, "PURSER_DATA_DIR", e.DefaultDataDir))
}

// database returns the path of the store's file.
func (e *examination) database() string {
	if e.Running != nil && e.Running.Store != nil && filepath.IsAbs(e.Running.Store.Path) {
		return e.Running.Store.Path
	}
	return e.Path(e.value(e.app.Store.Path, "PURSER_BOLT_PATH", filepath.Join(e.dataDir(), "purser.db")))
}

// wallets names those that are empty.
func (e *examination) wallets(context.Context) []Finding {
	if e.Running == nil {
		return one("wallets", Warn, "", "not looked at: only a purser that runs knows them")
	}
	var found []Finding
	known, unknown := 0, ""
	// Others choose the labels of their keys, and spend what is in their wallets: the operator is not told
	// to fund those.
	own := slices.DeleteFunc(slices.Clone(e.Wallets), func(w adminapi.Wallet) bool { return !w.Operator })
	for _, w := range own {
		if w.Code != "" && !w.CodeAccepts {
			found = append(found, one("wallets", Warn, "purser wallets create --key "+w.KeyID,
				"the wallet %s of key %s cannot pay: it has %s, which refuses the signatures of its key", w.ID, cmp.Or(w.KeyLabel, w.KeyID), w.Code)...)
		}
		if w.Balance == nil || w.Address == nil {
			unknown = w.Unknown
			continue
		}
		known++
		if amount, err := money.Parse(*w.Balance); err == nil && amount.IsZero() {
			n, _ := x402.NetworkByWire(w.Network)
			found = append(found, one("wallets", Warn, "send "+cmp.Or(n.Tokens(), money.Symbol)+" on "+cmp.Or(n.Title, w.Network)+" to "+*w.Address,
				"the wallet of key %s is empty", cmp.Or(w.KeyLabel, w.KeyID))...)
		}
	}
	switch {
	case len(e.Wallets) == 0:
		return one("wallets", Warn, "purser keys create", "there are none yet")
	case len(own) == 0:
		return one("wallets", OK, "", "those that there are belong to keys that others made")
	case known == 0:
		return one("wallets", Warn, "purser wallets", "balances are unknown: %s", cmp.Or(unknown, "there is no RPC"))
	case len(found) == 0:
		return one("wallets", OK, "", "%d with money in them", known)
	}
	return found
}

// disk looks for room for the store.
func (e *examination) disk(context.Context) []Finding {
	dir := filepath.Dir(e.database())
	for { // it is made at the first start
		if _, err := os.Stat(dir); err == nil || !errors.Is(err, fs.ErrNotExist) || dir == filepath.Dir(dir) {
			break
		}
		dir = filepath.Dir(dir)
	}
	free, err := boltstore.FreeSpace(dir)
	if err != nil {
		return one("disk", Warn, "", "free room is not known: %v", err)
	}
	room := fmt.Sprintf("%d MiB free at %s", free>>20, dir)
	switch {
	case free < roomFail:
		return one("disk", Fail, "make room: purser takes no payments below 64 MiB (PURSER_BOLT_MIN_FREE)", "%s", room)
	case free < roomWarn:
		return one("disk", Warn, "make room: journal, checkpoints and backups need it", "%s", room)
	}
	return one("disk", OK, "", "%s", room)
}

// permissions looks for files that others may read.
func (e *examination) permissions(context.Context) []Finding {
	if runtime.GOOS == "windows" {
		return nil
	}
	var found []Finding
	dir := e.dataDir()
	paths := append([]string{dir, e.database(), filepath.Join(dir, "master.key"), e.Getenv("PURSER_MASTER_KEY_FILE")}, e.Private...)
	seen := 0
	for _, path := range paths {
		if path == "" {
			continue
		}
		info, err := os.Stat(e.Path(path))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			found = append(found, one("permissions", Warn, "", "%v", err)...)
			continue
		}
		seen++
		if info.Mode().Perm()&0o077 != 0 {
			// A database in a closed folder is closed.
			if path != dir && filepath.Dir(path) == dir && closed(dir) {
				continue
			}
			found = append(found, one("permissions", Fail, "chmod go= "+path, "others can get at %s (%s)", path, info.Mode().Perm())...)
		}
	}
	if len(found) == 0 {
		return one("permissions", OK, "", "%d files and folders are this user's alone", seen)
	}
	return found
}

func closed(dir string) bool {
	info, err := os.Stat(dir)
	return err == nil && info.Mode().Perm()&0o077 == 0
}

// authority looks at the end of the root that opens HTTPS.
func (e *examination) authority(context.Context) []Finding {
	root := e.dataDir()
	if e.config.Storage != nil && e.config.Storage.Root != "" {
		root = e.Path(filled(e.config.Storage.Root, e.Getenv))
	}
	signing := struct {
		Signing string `json:"signing"`
	}{"purser"}
	if text, err := os.ReadFile(filepath.Join(root, "purser", "authority.json")); err == nil {
		if err := json.Unmarshal(text, &signing); err != nil {
			return one("authority", Warn, "", "%v", err)
		}
	}
	text, err := os.ReadFile(filepath.Join(root, "pki", "authorities", signing.Signing, "root.crt"))
	if errors.Is(err, fs.ErrNotExist) {
		return one("authority", OK, "", "none yet: the first start of a proxy makes the root that opens HTTPS")
	}
	var root1 *x509.Certificate
	if err == nil {
		block, _ := pem.Decode(text)
		if block == nil {
			err = errors.New("root.crt is no certificate")
		} else {
			root1, err = x509.ParseCertificate(block.Bytes)
		}
	}
	if err != nil {
		return one("authority", Warn, "", "%v", err)
	}
	until := root1.NotAfter.UTC().Format(time.DateOnly)
	switch left := root1.NotAfter.Sub(e.Now()); {
	case left < 0:
		return one("authority", Fail, "purser rotate authority", "the root that opens HTTPS has ended on %s", until)
	case left < authoritySoon:
		return one("authority", Warn, "purser rotate authority, and restart programs that read the root at their start", "the root that opens HTTPS ends on %s", until)
	}
	return one("authority", OK, "", "the root that opens HTTPS is good until %s", until)
}

// variables tells of those that do nothing, or contradict each other.
func (e *examination) variables(context.Context) []Finding {
	var found []Finding
	for _, w := range e.Warnings {
		found = append(found, one("variables", Warn, "", "%s", w)...)
	}
	for _, name := range []string{"PURSER_KEY", "PURSER_MASTER_KEY", "PURSER_RPC_URL", "PURSER_FACILITATOR_KEY", "PURSER_SIGNER_KEY", "PURSER_INTERNAL_SECRET"} {
		if e.Getenv(name) != "" && e.Getenv(name+"_FILE") != "" {
			found = append(found, one("variables", Fail, "keep one of them", "%s and %[1]s_FILE are both set", name)...)
		}
	}
	payment, day := e.value(e.app.MaxPayment, "PURSER_MAX_PAYMENT", "1"), e.value(e.app.DailyBudget, "PURSER_DAILY_BUDGET", "10")
	most, err1 := money.ParseUnits(payment, 6)
	whole, err2 := money.ParseUnits(day, 6)
	if err1 == nil && err2 == nil && most.Cmp(whole) > 0 {
		found = append(found, one("variables", Warn, "", "one payment may cost %s USDC, more than a whole day (%s): such a payment is never made", payment, day)...)
	}
	for _, n := range x402.Networks() {
		name := "PURSER_RPC_URL_" + strings.ToUpper(strings.ReplaceAll(n.Name, "-", "_"))
		names := strings.FieldsFunc(e.value(e.app.Networks, "PURSER_NETWORKS", "base"), separates)
		if e.Getenv(name) != "" && !contains(names, n) {
			found = append(found, one("variables", Warn, "add "+n.Name+" to PURSER_NETWORKS, or take it away", "%s is set, and nothing is paid on %s", name, n.Name)...)
		}
	}
	if len(found) == 0 {
		return one("variables", OK, "", "all are known, and fit together")
	}
	return found
}

func contains(names []string, n x402.Network) bool {
	for _, name := range names {
		if known, is := x402.NetworkByWire(name); is && known.Name == n.Name {
			return true
		}
	}
	return false
}

// limits tells what keys without limits of their own may spend at each door.
func (e *examination) limits(context.Context) []Finding {
	at, err := AddressesIn(e.Config, e.Getenv)
	if err != nil {
		return one("limits", Fail, "", "%v", err)
	}
	bound := func(text, per string) string {
		if text == "off" {
			return "without a bound " + per
		}
		return text + " USDC " + per
	}
	payment, day := e.value(e.app.MaxPayment, "PURSER_MAX_PAYMENT", "1"), e.value(e.app.DailyBudget, "PURSER_DAILY_BUDGET", "10")
	text := bound(payment, "a payment") + ", " + bound(day, "a day")
	result, do := OK, ""
	if day == "off" {
		result, do = Warn, "PURSER_DAILY_BUDGET, or purser limits for a key"
	}
	var found []Finding
	add := func(door, says string, result Result, do string) {
		found = append(found, one("limits", result, do, "%s: %s", door, says)...)
	}
	if len(at.Proxy) > 0 {
		add("proxy", "a key spends at most "+text, result, do)
	}
	if len(at.Sidecar) > 0 {
		add("sidecar", "its key spends at most "+text, result, do)
	}
	if len(at.REST) > 0 {
		says := "keys that you made spend at most " + text
		if e.value(e.app.Registration, "PURSER_REGISTRATION", "open") == "off" {
			add("REST", says+"; no others can make keys", result, do)
			return found
		}
		exposed := len(at.Exposed) > 0
		restResult, restDo := result, do
		if exposed {
			restResult, restDo = Warn, "PURSER_REGISTRATION=off, unless others are to make keys"
		}
		add("REST", says+"; keys of POST /api-keys have no limits, and wallets of their own", restResult, restDo)
	}
	return found
}
