package e2e

import (
	"fmt"
	"math/big"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/ethereum/go-ethereum/common"
	"github.com/ethereum/go-ethereum/params"

	"github.com/purserpay/purser/e2e/internal/process"
	"github.com/purserpay/purser/sandbox/evm"
	"github.com/purserpay/purser/x402"
)

// A single purser pays official sellers on several networks, each with a chain, an RPC and a
// facilitator of its own, and with USDC's address there.
func TestSeveralNetworks(t *testing.T) {
	t.Parallel()
	type place struct {
		network x402.Network
		chain   *evm.Chain
		seller  seller
	}
	places := make([]*place, 3)
	settings := []string{"PURSER_NETWORKS=polygon,arbitrum,avalanche", "PURSER_RPC_URL="}
	err := concurrently(func(i int) (err error) {
		p := &place{}
		p.network, _ = x402.NetworkByWire([]string{"polygon", "arbitrum", "avalanche"}[i])
		places[i] = p
		if p.chain, err = evm.Start(env.ctx, evm.Options{Network: p.network}); err != nil {
			return err
		}
		key, address, err := newAccount()
		if err != nil {
			return err
		}
		if err := p.chain.FundETH(env.ctx, address, new(big.Int).Mul(big.NewInt(100), big.NewInt(params.Ether))); err != nil {
			return err
		}
		id := strconv.FormatUint(p.network.ChainID, 10)
		ready, err := env.startPeer("facilitator.mjs", map[string]string{"RPC_URL": p.chain.RPCURL(), "PRIVATE_KEY": key, "CHAIN_ID": id})
		if err != nil {
			return err
		}
		p.seller, err = env.startSeller("seller-v2.mjs", ready.URL, map[string]string{"CHAIN_ID": id, "PRICE": "$0.01"})
		return err
	}, 0, 1, 2)
	for _, p := range places {
		if p != nil && p.chain != nil {
			t.Cleanup(func() { _ = p.chain.Close() })
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	for i, p := range places {
		variable := "PURSER_RPC_URL_" + strings.ToUpper(p.network.Name)
		if i == 0 {
			variable = "PURSER_RPC_URL"
		}
		settings = append(settings, variable+"="+p.chain.RPCURL())
	}
	purser := newPurser(t, "", settings...)
	purser.start(t)

	made := struct{ Key string }{}
	decode(t, send(t, direct, "POST", purser.URL("/api-keys"), `{"label":"networks"}`), http.StatusCreated, &made)
	payer := &payer{host: purser.Host(), key: made.Key, purser: purser}
	for _, p := range places {
		wallet := struct{ Address string }{}
		body := fmt.Sprintf(`{"network":%q}`, p.network.Name)
		decode(t, payer.call(t, "POST", "/wallets", body), http.StatusCreated, &wallet)
		if err := p.chain.Fund(t.Context(), common.HexToAddress(wallet.Address), big.NewInt(funds)); err != nil {
			t.Fatal(err)
		}
		got := send(t, payer.proxied(), "GET", p.seller.under(t, "http")+"/paid", "")
		requireStatus(t, got, http.StatusOK)
		from := common.HexToAddress(wallet.Address)
		transfers, err := p.chain.Transfers(t.Context(), &from, nil, 0)
		if err != nil || len(transfers) != 1 || transfers[0].To != p.seller.payTo || transfers[0].Value.Int64() != price {
			t.Fatalf("%s: %+v, %v", p.network.Name, transfers, err)
		}
		if tx := got.Header.Get("Purser-Transaction"); tx != transfers[0].Tx {
			t.Fatalf("%s: %q is in the answer, and %s on the chain", p.network.Name, tx, transfers[0].Tx)
		}
	}
	process.Eventually(t, 20*time.Second, func() string { // the last one waits for its client's acknowledgement
		list := payer.payments(t, "")
		if len(list) != len(places) || list[0].State != "settled" || list[2].State != "settled" {
			return fmt.Sprintf("%+v", list)
		}
		return ""
	})
	health := struct {
		RPC      struct{ OK bool }
		Networks []struct {
			Network string
			RPC     struct {
				OK    bool
				Error string
			}
		}
	}{}
	process.Eventually(t, 20*time.Second, func() string {
		decode(t, send(t, direct, "GET", purser.URL("/health"), ""), http.StatusOK, &health)
		if !health.RPC.OK || len(health.Networks) != len(places) {
			return fmt.Sprintf("%+v", health)
		}
		return ""
	})
	shown, err := purser.Command(t, "wallets")
	if err != nil || strings.Count(shown, "0.99") != len(places) {
		t.Fatalf("purser wallets: %v\n%s", err, shown)
	}
}
