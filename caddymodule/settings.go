package caddymodule

// No Caddy here: it resolves the options of the app.

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/purserpay/purser/boltstore"
	"github.com/purserpay/purser/internal/admission"
	"github.com/purserpay/purser/internal/vault"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/policy"
	"github.com/purserpay/purser/x402"
)

// Options that are named in more than one place (docs/design/surfaces.md).
var (
	dataDirOption        = option{"data_dir", "PURSER_DATA_DIR", "./purser-data"}
	internalSecretOption = option{"internal_secret", "PURSER_INTERNAL_SECRET", ""}
	masterKeyOption      = option{"master_key", "PURSER_MASTER_KEY", ""}
	keyOption            = option{"key", "PURSER_KEY", ""}
	standinOption        = option{"standin", "PURSER_STANDIN", off}
)

const (
	masterKeyName = "master.key" // in the data directory
	// dataDirMode: the folder holds who pays whom, and perhaps the master key.
	dataDirMode = 0o700
)

// settings are the app's options, resolved and checked. Nothing in them is exported into
// the configuration.
type settings struct {
	dataDir        string // absolute
	degrades       bool   // without a store, instead of failing
	masterKey      vault.Source
	masterKeyFile  string        // purser's own; "" if the key is configured
	masterKeyPrint string        // tells one master key's source from another
	masterKeyPlace string        // where the master key is, for people
	retain         time.Duration // 0: for ever
	settlement     pay.Settlement
	internalSecret string
	upgradeURL     string
	publicURL      string
	origins        []string
	key            string
	standin        bool
	policy         policy.Policy
	dailyGiven     bool          // the daily budget is not the shipped default
	approvalWait   time.Duration // 0: requests do not wait
	approvalExpiry time.Duration
	answerTimeout  time.Duration
	networks       []x402.Network
	schemes, rails []string
	site           string                 // see App.Site
	rpcs           map[string]networkRPCs // by network
	admission      admission.Options
	signIn         signIn
	told           noticeSettings
	plans          pay.Plans
	noPlans        bool
	failures       pay.FailureBounds
	// registrationClosed: POST /api-keys needs the internal secret.
	registrationClosed, adminOverTCP bool
}

// resolve reads all options.
func (a *App) resolve() (s settings, err error) {
	if a.World != "" && a.World != boltstore.Sandbox {
		return s, fmt.Errorf("purser: world: only %q can be asked for", boltstore.Sandbox)
	}
	err = cmp.Or(
		a.resolveStore(&s), a.resolveKeys(&s), set(&s.degrades, onFailureOption.degrades, a.OnFailure),
		set(&s.retain, option{"retain", "PURSER_RETAIN", off}.retain, a.Retain),
		set(&s.answerTimeout, option{"answer_timeout", "PURSER_ANSWER_TIMEOUT", ""}.duration, a.AnswerTimeout),
		set(&s.upgradeURL, option{"upgrade_url", "PURSER_UPGRADE_URL", ""}.url, a.UpgradeURL),
		set(&s.publicURL, option{"public_url", "PURSER_PUBLIC_URL", ""}.url, a.PublicURL),
		set(&s.site, siteOption.value, a.Site),
		set(&s.origins, option{"allowed_origins", "PURSER_ALLOWED_ORIGINS", ""}.list, a.AllowedOrigins),
		set(&s.settlement, option{"settlement", "PURSER_SETTLEMENT", ""}.settlement, a.Settlement),
		set(&s.networks, option{"networks", "PURSER_NETWORKS", "base"}.networks, a.Networks), a.resolveRPCs(&s),
		set(&s.schemes, option{"schemes", "PURSER_SCHEMES", x402.SchemeExact}.some("scheme", x402.SchemeExact, x402.SchemeUpto), a.Schemes),
		set(&s.rails, option{"rails", "PURSER_RAILS", strings.Join(pay.DefaultWays(), ",")}.some("rail", pay.DefaultWays()...), a.Rails),
		a.resolvePolicy(&s), a.ApprovalOptions.resolve(&s), a.resolveOverload(&s), a.resolveSignIn(&s), a.NoticeOptions.resolve(&s), a.resolvePlans(&s), a.resolveRegistration(&s),
	)
	if err != nil {
		return settings{}, err
	}
	return s, nil
}

func (a *App) resolveStore(s *settings) error {
	dataDir := dataDirOption
	if guest != nil {
		dataDir.unset = guest.DataDir
	}
	dir, err := dataDir.value(a.DataDir)
	if err != nil {
		return err
	}
	if s.dataDir, err = filepath.Abs(dir); err != nil {
		return dataDirOption.errorf("%w", err)
	}
	value, path, err := masterKeyOption.secretOrFile(a.MasterKey, a.MasterKeyFile)
	if err == nil && path != "" { // the key in it is checked when the store is opened
		_, err = masterKeyOption.file().read(path)
	}
	if err != nil {
		return err
	}
	generated := filepath.Join(s.dataDir, masterKeyName)
	s.masterKeyPlace = cmp.Or(path, generated)
	if value != "" {
		if _, err := vault.ParseMasterKey(value); err != nil {
			return masterKeyOption.errorf("%w", err)
		}
		s.masterKeyPlace = masterKeyOption.variable
	}
	if value == "" && path == "" {
		s.masterKeyFile = generated
	}
	s.masterKey = vault.From(value, path, generated)
	s.masterKeyPrint = fmt.Sprintf("%x %q", sha256.Sum256([]byte(value)), path)
	return nil
}

func (a *App) resolveKeys(s *settings) (err error) {
	if s.internalSecret, err = internalSecretOption.secret(a.InternalSecret, a.InternalSecretFile); err != nil {
		return err
	}
	if s.key, err = keyOption.apiKey(a.Key, a.KeyFile); err != nil {
		return err
	}
	if s.standin, err = standinOption.is(a.Standin, "loopback"); err == nil && s.standin && s.key == "" {
		err = standinOption.errorf("loopback needs %s, the key that pays", keyOption.variable)
	}
	return err
}

// retain is an option that is a time for which payments are kept, or off, which is 0.
func (o option) retain(given string) (time.Duration, error) {
	if v, err := o.value(given); err != nil || v == off {
		return 0, err
	}
	d, err := o.duration(given)
	if err == nil && d < pay.MinRetain {
		err = o.errorf("at least %dd, or off", pay.MinRetain/(24*time.Hour))
	}
	return d, err
}

func (o option) settlement(given string) (pay.Settlement, error) {
	v, err := o.value(given)
	if err != nil {
		return "", err
	}
	s, err := pay.ParseSettlement(v, pay.SettlePayer)
	if err != nil {
		err = o.errorf("%q is neither %s nor %s", v, pay.SettlePayer, pay.SettleSeller)
	}
	return s, err
}

// some returns an option that lists some of these words. what names one of them.
func (o option) some(what string, of ...string) func(given string) ([]string, error) {
	return func(given string) ([]string, error) {
		all, err := o.list(given)
		for _, name := range all {
			if !slices.Contains(of, name) {
				return nil, o.errorf("unknown %s %q", what, name)
			}
		}
		if err != nil || len(all) > 0 {
			return all, err
		}
		return nil, o.errorf("no %s is named", what)
	}
}

func (o option) networks(given string) (all []x402.Network, err error) {
	names, err := o.list(given)
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		n, ok := x402.NetworkByWire(name)
		switch {
		case !ok || n.Name != name:
			return nil, o.errorf("unknown network %q", name)
		case slices.ContainsFunc(all, func(o x402.Network) bool { return o.Name == name }):
			return nil, o.errorf("%s is named twice", name)
		}
		all = append(all, n)
	}
	if len(all) == 0 {
		return nil, o.errorf("no network is named")
	}
	return all, nil
}
