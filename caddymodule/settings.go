package caddymodule

// No Caddy here: it resolves the options of the app.

import (
	"crypto/sha256"
	"fmt"
	"net/url"
	"path/filepath"

	"github.com/purserpay/purser/boltstore"
	"github.com/purserpay/purser/chain"
	"github.com/purserpay/purser/internal/admission"
	"github.com/purserpay/purser/internal/vault"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/x402"
)

// The app's options and their variables (docs/design.md §9).
var (
	dataDirOption        = option{name: "data_dir", variable: "PURSER_DATA_DIR"}
	masterKeyOption      = option{name: "master_key", variable: "PURSER_MASTER_KEY"}
	rpcURLOption         = option{name: "rpc_url", variable: "PURSER_RPC_URL"}
	rpcURL2Option        = option{name: "rpc_url_2", variable: "PURSER_RPC_URL_2"}
	settlementOption     = option{name: "settlement", variable: "PURSER_SETTLEMENT"}
	internalSecretOption = option{name: "internal_secret", variable: "PURSER_INTERNAL_SECRET"}
	upgradeURLOption     = option{name: "upgrade_url", variable: "PURSER_UPGRADE_URL"}
	publicURLOption      = option{name: "public_url", variable: "PURSER_PUBLIC_URL"}
	originsOption        = option{name: "allowed_origins", variable: "PURSER_ALLOWED_ORIGINS"}
	keyOption            = option{name: "key", variable: "PURSER_KEY"}
	standinOption        = option{name: "standin", variable: "PURSER_STANDIN"}
	networksOption       = option{name: "networks", variable: "PURSER_NETWORKS"}
)

// Defaults.
const (
	defaultDataDir  = "./purser-data"
	masterKeyName   = "master.key" // in the data directory
	defaultNetworks = "base"
	// dataDirMode: the folder holds who pays whom, and perhaps the master key.
	dataDirMode = 0o700
)

// settings are the app's options, resolved and checked. Nothing in them is exported into
// the configuration.
type settings struct {
	dataDir        string // absolute
	masterKey      vault.Source
	masterKeyPrint string // tells one master key's source from another
	masterKeyPlace string // where the master key is, for people
	rpcURL         string
	rpcURL2        string // "": the first one's word is enough
	settlement     pay.Settlement
	internalSecret string
	upgradeURL     string
	publicURL      string
	origins        []string
	key            string
	standin        bool
	policy         pay.Policy
	dailyGiven     bool // the daily budget is not the shipped default
	networks       []x402.Network
	admission      admission.Options
	signIn         signIn
	plans          pay.Plans
	noPlans        bool
	failures       pay.FailureBounds
	// registrationClosed: POST /api-keys needs the internal secret.
	registrationClosed bool
}

// resolve reads all options.
func (a *App) resolve() (s settings, err error) {
	steps := []func(*settings) error{
		a.resolveStore, a.resolveKeys, a.resolveAddresses, a.resolvePayments, a.resolvePolicy, a.resolveOverload,
		a.resolveSignIn, a.resolvePlans, a.resolveRegistration,
	}
	for _, step := range steps {
		if err := step(&s); err != nil {
			return settings{}, err
		}
	}
	return s, nil
}

func (a *App) resolveStore(s *settings) error {
	if a.World != "" && a.World != boltstore.Sandbox {
		return fmt.Errorf("purser: world: only %q can be asked for", boltstore.Sandbox)
	}
	dir, err := dataDirOption.or(a.DataDir, defaultDataDir)
	if err != nil {
		return err
	}
	if s.dataDir, err = filepath.Abs(dir); err != nil {
		return dataDirOption.errorf("%w", err)
	}
	// The value is checked here, its file only when the store is opened.
	value, path, err := masterKeyOption.secretOrFile(a.MasterKey, a.MasterKeyFile)
	if err != nil {
		return err
	}
	if value != "" {
		if _, err := vault.ParseMasterKey(value); err != nil {
			return masterKeyOption.errorf("%w", err)
		}
	}
	generated := filepath.Join(s.dataDir, masterKeyName)
	s.masterKey = vault.From(value, path, generated)
	switch {
	case value != "":
		s.masterKeyPlace = masterKeyOption.variable
	case path != "":
		s.masterKeyPlace = path
	default:
		s.masterKeyPlace = generated
	}
	s.masterKeyPrint = fmt.Sprintf("%x %q", sha256.Sum256([]byte(value)), path)
	return nil
}

func (a *App) resolveKeys(s *settings) (err error) {
	if s.internalSecret, err = internalSecretOption.secret(a.InternalSecret, a.InternalSecretFile); err != nil {
		return err
	}
	if s.key, err = keyOption.secret(a.Key, a.KeyFile); err != nil {
		return err
	}
	if s.key != "" && !pay.ValidSecret(s.key) {
		return keyOption.errorf("not an API key: 8 to 256 characters of A-Z a-z 0-9 . _ ~ + / = -")
	}
	standin, err := standinOption.or(a.Standin, off)
	switch {
	case err != nil:
		return err
	case standin == off:
	case standin != "loopback":
		return standinOption.errorf("%q is neither loopback nor off", standin)
	case s.key == "":
		return standinOption.errorf("loopback needs %s, the key that pays", keyOption.variable)
	default:
		s.standin = true
	}
	return nil
}

func (a *App) resolveAddresses(s *settings) (err error) {
	if s.rpcURL, err = rpcURLOption.value(a.RPCURL); err != nil {
		return err
	}
	if s.rpcURL != "" {
		if _, err := chain.New(chain.Options{URL: s.rpcURL}); err != nil {
			return rpcURLOption.errorf("%w", err)
		}
	}
	if s.rpcURL2, err = rpcURL2Option.value(a.RPCURL2); err != nil {
		return err
	}
	switch {
	case s.rpcURL2 == "":
	case s.rpcURL == "":
		return rpcURL2Option.errorf("needs %s, which it has to agree with", rpcURLOption.variable)
	case s.rpcURL2 == s.rpcURL:
		return rpcURL2Option.errorf("is the same as %s, which agrees with itself always", rpcURLOption.variable)
	default:
		if _, err := chain.New(chain.Options{URL: s.rpcURL2, Setting: rpcURL2Option.variable}); err != nil {
			return rpcURL2Option.errorf("%w", err)
		}
	}
	if s.upgradeURL, err = upgradeURLOption.url(a.UpgradeURL); err != nil {
		return err
	}
	if s.publicURL, err = publicURLOption.url(a.PublicURL); err != nil {
		return err
	}
	origins, err := originsOption.value(a.AllowedOrigins)
	s.origins = list(origins)
	return err
}

// url is an option that is an absolute http or https URL, or unset.
func (o option) url(given string) (string, error) {
	v, err := o.value(given)
	if err != nil || v == "" {
		return "", err
	}
	u, err := url.Parse(v)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Hostname() == "" {
		return "", o.errorf("not an absolute http or https URL")
	}
	return v, nil
}

func (a *App) resolvePayments(s *settings) error {
	settlement, err := settlementOption.value(a.Settlement)
	if err != nil {
		return err
	}
	if s.settlement, err = pay.ParseSettlement(settlement, pay.SettlePayer); err != nil {
		return settlementOption.errorf("%q is neither %s nor %s", settlement, pay.SettlePayer, pay.SettleSeller)
	}
	names, err := networksOption.or(a.Networks, defaultNetworks)
	if err != nil {
		return err
	}
	for _, name := range list(names) {
		n, ok := x402.NetworkByWire(name)
		if !ok || n.Name != name {
			return networksOption.errorf("unknown network %q", name)
		}
		s.networks = append(s.networks, n)
	}
	if len(s.networks) == 0 {
		return networksOption.errorf("no network is named")
	}
	return nil
}
