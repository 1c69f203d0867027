package e2e

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/ethereum/go-ethereum/common"
	"github.com/go-jose/go-jose/v4"

	"github.com/purserpay/purser/e2e/internal/process"
	"github.com/purserpay/purser/internal/testing/needed"
	"github.com/purserpay/purser/money"
	"github.com/purserpay/purser/sandbox/cdp"
	"github.com/purserpay/purser/x402"
)

// Wallets whose keys are outside purser pay as those inside do: on REST with both settlements, and through the proxy.
func TestWalletProviders(t *testing.T) {
	t.Parallel()
	for name, settings := range map[string]func(t *testing.T) (facilitator string, platform *cdp.Platform, settings []string){
		"local": func(*testing.T) (string, *cdp.Platform, []string) { return env.facilitator, nil, nil },
		"external": func(t *testing.T) (string, *cdp.Platform, []string) {
			return env.facilitator, nil, []string{"PURSER_WALLETS=external", "PURSER_SIGNER_URL=" + process.StartSigner(t)}
		},
		"cdp, Ed25519": func(t *testing.T) (string, *cdp.Platform, []string) { return startCDPWorld(t, jose.EdDSA) },
		"cdp, ES256":   func(t *testing.T) (string, *cdp.Platform, []string) { return startCDPWorld(t, jose.ES256) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			facilitator, platform, more := settings(t)
			p := newPurser(t, facilitator, append(more, "PURSER_SCHEMES=exact,upto")...)
			p.start(t)
			provider, _, _ := strings.Cut(name, ",")
			t.Run("payer settles", func(t *testing.T) {
				t.Parallel()
				payer, url := p.newPayer(t), env.v2.url+"/paid"
				got := payer.pay(t, send(t, direct, "GET", url, ""), url)
				if !got.Settled || !x402.ValidTransaction(got.Transaction) {
					t.Fatalf("got %+v", got)
				}
				payer.requireOnce(t, env.v2.payTo)
				var list struct {
					Wallets []struct {
						WalletID string `json:"wallet_id"`
					}
				}
				decode(t, payer.call(t, "GET", "/wallets/me", ""), http.StatusOK, &list)
				if len(list.Wallets) != 1 || !strings.HasPrefix(list.Wallets[0].WalletID, provider+"_") {
					t.Errorf("wallets %+v", list)
				}
			})
			t.Run("seller settles", func(t *testing.T) {
				t.Parallel()
				payer, url := p.newPayer(t), env.v2.url+postEcho.path
				got := payer.pay(t, send(t, direct, postEcho.method, url, postEcho.body), url, "settlement", "seller")
				goods := send(t, direct, postEcho.method, url, postEcho.body, got.PaymentHeader, got.PaymentSignature)
				requireStatus(t, goods, http.StatusOK)
				receipt := strconv.Quote(goods.Header.Get(x402.HeaderResponse))
				requireStatus(t, payer.call(t, "POST", "/v1/payments/"+got.Payment.ID+"/receipt", `{"receipt":`+receipt+`}`), http.StatusOK)
				payer.requireOnce(t, env.v2.payTo)
			})
			t.Run("proxy", func(t *testing.T) {
				t.Parallel()
				payer := p.newPayer(t)
				got := send(t, payer.proxied(), getPaid.method, env.v2.under(t, "http")+getPaid.path, getPaid.body)
				requirePaidAnswer(t, got, getPaid, payer)
				payer.requireOnce(t, env.v2.payTo)
			})
			for path, charged := range map[string]int64{"/permit2": price, "/upto?charge=1234": 1234} {
				t.Run("proxy, "+path, func(t *testing.T) {
					t.Parallel()
					payer := p.newPayer(t)
					if platform == nil {
						payer.approve(t, once)
					} else if err := env.chain.Approve(t.Context(), platform.Key(payer.wallet.Hex()), x402.Permit2, big.NewInt(price)); err != nil {
						t.Fatal(err) // CDP signs no transactions for purser
					}
					got := send(t, payer.proxied(), "GET", env.v2.under(t, "http")+path, "")
					requireStatus(t, got, http.StatusOK)
					if !getPaid.delivered(got.Body) {
						t.Errorf("got %s", got.Body)
					}
					payer.requireCharged(t, charged)
				})
			}
			t.Run("health", func(t *testing.T) {
				t.Parallel()
				var health struct {
					Wallets struct {
						Provider string
						OK       *bool
					}
					Facilitator struct{ OK bool }
				}
				decode(t, send(t, direct, "GET", p.URL("/health"), ""), http.StatusOK, &health)
				wallets := health.Wallets
				if wallets.Provider != provider || (wallets.OK == nil) != (provider == "local") || wallets.OK != nil && !*wallets.OK || !health.Facilitator.OK {
					t.Errorf("health %+v", health)
				}
			})
		})
	}
}

// secrets are the credentials of a stand-in for CDP.
type secrets struct{ id, key, wallet string }

// startCDP starts a stand-in for CDP, whose facilitator is the official one behind CDP's tokens.
func startCDP(t *testing.T, algorithm jose.SignatureAlgorithm) (string, secrets, *cdp.Platform) {
	t.Helper()
	s := secrets{id: "organizations/purser/apiKeys/e2e"}
	o := cdp.Options{KeyID: s.id, KeyAlgorithm: algorithm}
	if algorithm == jose.EdDSA {
		public, private, err := ed25519.GenerateKey(rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		o.Key, s.key = public, base64.StdEncoding.EncodeToString(private)
	} else {
		key, der := ecKey(t)
		o.Key, s.key = &key.PublicKey, string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}))
	}
	wallet, der := ecKey(t)
	o.WalletKey, s.wallet = &wallet.PublicKey, base64.StdEncoding.EncodeToString(der)
	facilitator, err := url.Parse(env.facilitator)
	if err != nil {
		t.Fatal(err)
	}
	o.Facilitator = httputil.NewSingleHostReverseProxy(facilitator)
	platform, err := cdp.New(o)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(platform)
	t.Cleanup(func() {
		server.Close()
		if faults := platform.Faults(); len(faults) > 0 {
			t.Errorf("the stand-in has answered what CDP does not: %q", faults)
		}
	})
	return server.URL + cdp.BasePath, s, platform
}

func ecKey(t *testing.T) (*ecdsa.PrivateKey, []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return key, der
}

func cdpSettings(t *testing.T, algorithm jose.SignatureAlgorithm) (facilitator string, settings []string) {
	t.Helper()
	facilitator, _, settings = startCDPWorld(t, algorithm)
	return facilitator, settings
}

// startCDPWorld starts a stand-in, and returns the settings of a purser that uses it.
func startCDPWorld(t *testing.T, algorithm jose.SignatureAlgorithm) (facilitator string, platform *cdp.Platform, settings []string) {
	t.Helper()
	base, s, platform := startCDP(t, algorithm)
	return base + "/v2/x402", platform, []string{
		"PURSER_WALLETS=cdp", "PURSER_CDP_URL=" + base, "PURSER_FACILITATOR_AUTH=cdp",
		"CDP_API_KEY_ID=" + s.id, "CDP_API_KEY_SECRET=" + s.key, "CDP_WALLET_SECRET=" + s.wallet,
	}
}

// The stand-in for CDP is honest: the vendor's SDK makes accounts and signs with it, by both kinds of API keys.
func TestVendorsSDKDrivesTheStandIn(t *testing.T) {
	t.Parallel()
	needed.File(t, "run `make e2e-deps`", filepath.Join("signers", "node_modules", "@coinbase", "cdp-sdk", "package.json"))
	for _, algorithm := range []jose.SignatureAlgorithm{jose.EdDSA, jose.ES256} {
		t.Run(string(algorithm), func(t *testing.T) {
			t.Parallel()
			base, s, platform := startCDP(t, algorithm)
			network := x402.Networks()[0]
			authorization := x402.Authorization{To: x402.EVMAddress([20]byte{1}), Value: money.New(10_000), ValidBefore: 1_900_000_000, Nonce: x402.Nonce{7}}
			typed, err := json.Marshal(authorization.TypedData(network.Assets[0], network.ChainID))
			if err != nil {
				t.Fatal(err)
			}
			cmd := exec.CommandContext(t.Context(), "node", filepath.Join("signers", "cdp.mjs"))
			cmd.Env = process.Environment(
				"BASE_URL="+base, "CDP_API_KEY_ID="+s.id, "CDP_API_KEY_SECRET="+s.key, "CDP_WALLET_SECRET="+s.wallet, "TYPED_DATA="+string(typed),
			)
			var stderr bytes.Buffer
			cmd.Stderr = &stderr
			out, err := cmd.Output()
			if err != nil {
				t.Fatalf("%v\n%s", err, stderr.String())
			}
			var got struct{ Address, Again, Found, Signature, Conflict string }
			if err := json.Unmarshal(out, &got); err != nil {
				t.Fatalf("%q: %v", out, err)
			}
			if got.Again != got.Address || got.Found != got.Address || got.Conflict != "idempotency_error" || platform.Accounts() != 1 {
				t.Errorf("got %+v, %d accounts", got, platform.Accounts())
			}
			signature, err := x402.ParseForeignSignature(got.Signature)
			if err != nil {
				t.Fatal(err)
			}
			by, err := x402.Recover(authorization.Digest(network.Assets[0], network.ChainID), signature)
			if err != nil || common.Address(by.EVM()) != common.HexToAddress(got.Address) {
				t.Errorf("signed by %s, %v", by, err)
			}
		})
	}
}
