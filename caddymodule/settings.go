package caddymodule

// No Caddy here: it resolves the options of the app.

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/purserpay/purser/boltstore"
	"github.com/purserpay/purser/internal/admission"
	"github.com/purserpay/purser/internal/setting"
	"github.com/purserpay/purser/internal/vault"
	"github.com/purserpay/purser/pay"
	"github.com/purserpay/purser/policy"
	"github.com/purserpay/purser/x402"
)

// Options that are named in more than one place (docs/design/surfaces.md).
var (
	dataDirOption        = setting.New("data_dir", "PURSER_DATA_DIR", "./purser-data")
	internalSecretOption = setting.New("internal_secret", "PURSER_INTERNAL_SECRET", "")
	masterKeyOption      = setting.New("master_key", "PURSER_MASTER_KEY", "")
	keyOption            = setting.New("key", "PURSER_KEY", "")
	standinOption        = setting.New("standin", "PURSER_STANDIN", setting.Off)
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
		a.resolveStore(&s), a.resolveKeys(&s), setting.Set(&s.degrades, degrades, a.OnFailure),
		setting.Set(&s.retain, setting.New("retain", "PURSER_RETAIN", setting.Off).Retain, a.Retain),
		setting.Set(&s.answerTimeout, setting.New("answer_timeout", "PURSER_ANSWER_TIMEOUT", "").Duration, a.AnswerTimeout),
		setting.Set(&s.upgradeURL, setting.New("upgrade_url", "PURSER_UPGRADE_URL", "").URL, a.UpgradeURL),
		setting.Set(&s.publicURL, setting.New("public_url", "PURSER_PUBLIC_URL", "").URL, a.PublicURL),
		setting.Set(&s.site, siteOption.Value, a.Site),
		setting.Set(&s.origins, setting.New("allowed_origins", "PURSER_ALLOWED_ORIGINS", "").List, a.AllowedOrigins),
		setting.Set(&s.settlement, setting.New("settlement", "PURSER_SETTLEMENT", "").Settlement, a.Settlement),
		setting.Set(&s.networks, setting.New("networks", "PURSER_NETWORKS", "base").Networks, a.Networks), a.resolveRPCs(&s),
		setting.Set(&s.schemes, setting.New("schemes", "PURSER_SCHEMES", x402.SchemeExact).Some("scheme", x402.SchemeExact, x402.SchemeUpto), a.Schemes),
		setting.Set(&s.rails, setting.New("rails", "PURSER_RAILS", strings.Join(pay.DefaultWays(), ",")).Some("rail", pay.DefaultWays()...), a.Rails),
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
		dataDir.Unset = guest.DataDir
	}
	dir, err := dataDir.Value(a.DataDir)
	if err != nil {
		return err
	}
	if s.dataDir, err = filepath.Abs(dir); err != nil {
		return dataDirOption.Errorf("%w", err)
	}
	value, path, err := masterKeyOption.SecretOrFile(a.MasterKey, a.MasterKeyFile)
	if err == nil && path != "" { // the key in it is checked when the store is opened
		_, err = masterKeyOption.File().Read(path)
	}
	if err != nil {
		return err
	}
	generated := filepath.Join(s.dataDir, masterKeyName)
	s.masterKeyPlace = cmp.Or(path, generated)
	if value != "" {
		if _, err := vault.ParseMasterKey(value); err != nil {
			return masterKeyOption.Errorf("%w", err)
		}
		s.masterKeyPlace = masterKeyOption.Variable
	}
	if value == "" && path == "" {
		s.masterKeyFile = generated
	}
	s.masterKey = vault.From(value, path, generated)
	s.masterKeyPrint = fmt.Sprintf("%x %q", sha256.Sum256([]byte(value)), path)
	return nil
}

func (a *App) resolveKeys(s *settings) (err error) {
	if s.internalSecret, err = internalSecretOption.Secret(a.InternalSecret, a.InternalSecretFile); err != nil {
		return err
	}
	if s.key, err = keyOption.APIKey(a.Key, a.KeyFile); err != nil {
		return err
	}
	if s.standin, err = standinOption.Is(a.Standin, "loopback"); err == nil && s.standin && s.key == "" {
		err = standinOption.Errorf("loopback needs %s, the key that pays", keyOption.Variable)
	}
	return err
}
