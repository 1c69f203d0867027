package caddymodule

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/caddyserver/caddy/v2"
	"github.com/caddyserver/caddy/v2/modules/caddyevents"

	"github.com/purserpay/purser/internal/adminapi"
	"github.com/purserpay/purser/internal/books"
	"github.com/purserpay/purser/internal/environment"
	"github.com/purserpay/purser/internal/logs"
	"github.com/purserpay/purser/pay"
)

// App is purser: keys, wallets and payments in one store, for the handlers that serve
// them. Every option that is not set is read from its variable in the environment, so
// that an empty configuration works; an empty value counts as unset.
type App struct {
	// DataDir is the folder of database and generated master key. It is created, for its
	// owner only, when purser starts. Default: {env.PURSER_DATA_DIR}, else ./purser-data for the program
	// purser, and purser in Caddy's data directory in a Caddy of one's own. It changes with a restart only.
	DataDir string `json:"data_dir,omitempty"`
	// MasterKey is a reference to the key that wraps the store's secrets: 32 bytes, hex or
	// base64. Default: {env.PURSER_MASTER_KEY}, else a file generated in the data directory.
	MasterKey string `json:"master_key,omitempty"`
	// MasterKeyFile is the file of the master key. Default: {env.PURSER_MASTER_KEY_FILE}.
	MasterKeyFile string `json:"master_key_file,omitempty"`

	// StoreRaw is the database. Default: the module named by {env.PURSER_STORE}, else bolt.
	StoreRaw json.RawMessage `json:"store,omitempty" caddy:"namespace=purser.stores inline_key=module"`
	// WalletsRaw makes wallets and signs. Default: the module named by
	// {env.PURSER_WALLETS}, else local.
	WalletsRaw json.RawMessage `json:"wallets,omitempty" caddy:"namespace=purser.wallets inline_key=module"`
	// FacilitatorRaw verifies and settles. Default: http with its own defaults.
	FacilitatorRaw json.RawMessage `json:"facilitator,omitempty" caddy:"namespace=purser.facilitators inline_key=module"`

	// OnFailure says what a start does while the store cannot be opened: fail, or degrade, so that Caddy starts, purser's
	// doors answer 503, and the store is tried again. Default: {env.PURSER_ON_FAILURE}, else fail for the
	// program purser, and degrade in a Caddy of one's own.
	OnFailure string `json:"on_failure,omitempty"`

	// Retain is the time for which payments are kept, disputed and unresolved ones too, such as "400d",
	// at least 60d, or off, which is for ever; sums by day stay. Default: {env.PURSER_RETAIN}, else off.
	Retain string `json:"retain,omitempty"`

	// AnswerTimeout is the time that a seller has from the end of a request to the header of its answer, such
	// as 30m. A client that announces a longer one has that. Default: {env.PURSER_ANSWER_TIMEOUT}, else 15m.
	AnswerTimeout string `json:"answer_timeout,omitempty"`

	// RPCURL is the JSON-RPC of the first network, for balances and evidence. Default:
	// {env.PURSER_RPC_URL}; without one, what a facilitator or seller does not tell stays unknown.
	RPCURL string `json:"rpc_url,omitempty"`
	// RPCURLFile is a file that holds it. Default: {env.PURSER_RPC_URL_FILE}.
	RPCURLFile string `json:"rpc_url_file,omitempty"`
	// RPCURL2 is another provider's JSON-RPC of the same network, which must agree before a payment
	// is void or disputed. Default: {env.PURSER_RPC_URL_2}; without one the first one's word is enough.
	RPCURL2 string `json:"rpc_url_2,omitempty"`
	// RPCURL2File is a file that holds it. Default: {env.PURSER_RPC_URL_2_FILE}.
	RPCURL2File string `json:"rpc_url_2_file,omitempty"`
	// Settlement is the party that settles when POST /v1/pay names none: payer or seller.
	// Default: {env.PURSER_SETTLEMENT}, else payer.
	Settlement string `json:"settlement,omitempty"`
	// Networks to pay on, separated by commas: base, base-sepolia, polygon, arbitrum, optimism,
	// ethereum, avalanche, tempo. Default: {env.PURSER_NETWORKS}, else base.
	Networks string `json:"networks,omitempty" form:"list"`
	// Schemes of x402 to pay by, separated by commas: exact, upto. With upto a seller chooses how much it
	// takes, at most what it asks. Default: {env.PURSER_SCHEMES}, else exact.
	Schemes string `json:"schemes,omitempty" form:"list"`
	// Rails to pay by, in the order of choice where a seller offers several: eip3009 and permit2 of x402,
	// mpp-evm, tempo-sponsored and tempo of MPP. Default: {env.PURSER_RAILS}, else
	// eip3009,mpp-evm,tempo-sponsored,tempo,permit2.
	Rails string `json:"rails,omitempty" form:"list"`
	// NetworkTable has the RPCs of networks.
	NetworkTable map[string]NetworkOptions `json:"network,omitempty"`

	// InternalSecret is a reference to the secret that allows privileged fields on
	// POST /api-keys. Default: {env.PURSER_INTERNAL_SECRET}; without one nothing does.
	InternalSecret string `json:"internal_secret,omitempty"`
	// InternalSecretFile is its file. Default: {env.PURSER_INTERNAL_SECRET_FILE}.
	InternalSecretFile string `json:"internal_secret_file,omitempty"`
	// UpgradeURL is the address that answers about limits name. Default: {env.PURSER_UPGRADE_URL},
	// else /dashboard of this purser.
	UpgradeURL string `json:"upgrade_url,omitempty"`
	// PublicURL is the address that the outside knows this purser by. Default: {env.PURSER_PUBLIC_URL}.
	PublicURL string `json:"public_url,omitempty"`
	// Site is the site that commands and links of this machine go to, where several have the same door: an address that it
	// listens on, or the name of its server. Default: {env.PURSER_SITE}, else the lowest address, on loopback if there is one.
	Site string `json:"site,omitempty"`
	// AllowedOrigins are the origins whose pages may call the API, separated by commas or
	// spaces. Default: {env.PURSER_ALLOWED_ORIGINS}, else none.
	AllowedOrigins string `json:"allowed_origins,omitempty" form:"list"`

	// Key is a reference to the deployment's own API key. An unknown key is created, with a wallet.
	// Default: {env.PURSER_KEY}, else none.
	Key string `json:"key,omitempty"`
	// KeyFile is its file. Default: {env.PURSER_KEY_FILE}.
	KeyFile string `json:"key_file,omitempty"`
	// Standin, when "loopback", makes that key pay for proxy clients on loopback that send
	// none. Default: {env.PURSER_STANDIN}, else off.
	Standin string `json:"standin,omitempty"`

	PolicyOptions
	OverloadOptions
	RegistrationOptions
	SignInOptions
	NoticeOptions
	ApprovalOptions

	// Plans, when "off", removes the plans of organizations and unclaimed keys: no monthly quota,
	// and no plan on the dashboard. Default: {env.PURSER_PLANS}, else on.
	Plans string `json:"plans,omitempty"`
	// PlanTable changes the plans free, developer and agency.
	PlanTable map[string]PlanOptions `json:"plan,omitempty"`

	// World is "sandbox" for the program purser-sandbox, which opens only stores of its
	// own, and empty for everything else. It has no Caddyfile option.
	World string `json:"world,omitempty" caddyfile:"-"`
	// Example is the URL of a paid API that the dashboard of a sandbox proposes to try.
	Example string `json:"example,omitempty" caddyfile:"-"`

	ctx         caddy.Context
	log         *slog.Logger
	settings    settings
	store       StoreModule
	wallets     WalletsModule
	facilitator FacilitatorModule
	events      *caddyevents.App

	doors []door // set while the http app is provisioned

	mu     sync.Mutex // held while opening
	live   atomic.Pointer[running]
	outage atomic.Pointer[outage] // from a start without a store on
}

// CaddyModule returns the Caddy module information.
func (*App) CaddyModule() caddy.ModuleInfo {
	return caddy.ModuleInfo{ID: "purser", New: func() caddy.Module { return new(App) }}
}

// Provision resolves and checks the configuration. Nothing is opened or created.
func (a *App) Provision(ctx caddy.Context) error {
	a.ctx, a.log = ctx, logs.WithPayment(ctx.Slogger())
	err := environment.CheckStructural()
	if err != nil {
		return err
	}
	if a.settings, err = a.resolve(); err != nil {
		return err
	}
	if err := a.loadGuests(ctx); err != nil {
		return err
	}
	app, err := ctx.App("events")
	if err != nil {
		return fmt.Errorf("purser: events: %w", err)
	}
	a.events = app.(*caddyevents.App)
	return a.registerMetrics(ctx.GetMetricsRegistry())
}

func (a *App) loadGuests(ctx caddy.Context) error {
	return cmp.Or(
		loadGuest(ctx, a, "StoreRaw", a.StoreRaw, storeOption, &a.store),
		loadGuest(ctx, a, "WalletsRaw", a.WalletsRaw, walletsOption, &a.wallets),
		loadGuest(ctx, a, "FacilitatorRaw", a.FacilitatorRaw, facilitatorOption, &a.facilitator),
	)
}

// doorKey is the key that pays at a door which has none of its own: the deployment's, else
// the exec key. Its secret comes with it.
func (a *App) doorKey(ctx context.Context, b *books.Books) (k pay.Key, secret string, err error) {
	if a.settings.key == "" {
		exec, err := a.keys(b).Exec(ctx)
		return exec.Key, exec.Secret, err
	}
	k, err = a.ensureKey(b, keyOption, a.settings.key, "deployment")
	return k, a.settings.key, err
}

// Start opens the store and checks what only the whole configuration shows. Without a store the app may wait for it.
func (a *App) Start() error {
	if err := errors.Join(a.sitesFree(), a.checkListeners()); err != nil {
		return err
	}
	run, err := a.open(a.ctx)
	if _, is := errors.AsType[*storeError](err); is && a.settings.degrades {
		a.degrade(err)
	} else if err != nil {
		return err
	}
	if file, adapter := line.Server.Source(); file != "" { // SIGUSR1 reads the variables again, too
		caddy.SetLastConfig(file, adapter, func(string, string) error {
			_, err := line.Reload(adminapi.Reload{})
			return err
		})
	}
	if run != nil {
		a.serve(run)
	}
	return nil
}

// serve begins recovery for this configuration, which has its store open.
func (a *App) serve(run *running) {
	a.warnOfRPCs()
	a.warnOfRegistration()
	a.warnOfExposure()
	run.home.start(run.tenant)
	outages.Delete(a.outage.Load())
	a.log.Info("purser is ready", "version", Version(), "proxy", urlOf[*Proxy](a), "dashboard", a.dashboardURL(), "listen", a.listens(),
		"data", a.settings.dataDir)
}

// Stop ends recovery for this configuration. Requests in flight go on.
func (a *App) Stop() error {
	if o := a.outage.Load(); o != nil {
		o.Stop()
		outages.Delete(o)
	}
	if run := a.live.Load(); run != nil {
		run.home.stop(run.tenant)
		if caddy.Exiting() || run.home.newestTenant() == nil {
			a.stopWaiting()
		}
	}
	return nil
}

// Cleanup gives the store back.
func (a *App) Cleanup() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if run := a.live.Load(); run != nil && !run.released {
		run.released = true
		run.tenant.requests.Retire(time.Now())
		run.home.release()
	}
	return nil
}

var (
	_ caddy.App          = (*App)(nil)
	_ caddy.Provisioner  = (*App)(nil)
	_ caddy.CleanerUpper = (*App)(nil)
)
