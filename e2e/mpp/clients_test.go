package mpp

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"os/exec"
	"testing"
	"time"

	"github.com/purserpay/purser/e2e/internal/official"
	"github.com/purserpay/purser/e2e/internal/process"
	"github.com/purserpay/purser/x402"
)

// patience bounds the run of a client.
const patience = 2 * time.Minute

// A client makes purchases at once.
type client struct {
	name, script string
}

// clients know nothing of MPP, or all of it if they are run as official ones.
var clients = []client{{"npm", "buy.mjs"}, {"pypi", "buy.py"}}

// curl is a client too, one program for each purchase.
var curl = client{"curl", ""}

// purchase is a request, with a body if it has one.
type purchase struct {
	url  string
	body []byte
}

// MarshalJSON writes a purchase for the clients.
func (p purchase) MarshalJSON() ([]byte, error) {
	return json.Marshal([2]string{p.url, base64.StdEncoding.EncodeToString(p.body)})
}

// result is the answer that a client got for a purchase. Without a status there is a failure.
type result struct {
	Status   int    `json:"status"`
	Text     string `json:"text"`
	Declined string `json:"declined"`
	Failure  string `json:"failure"`
}

// times is n purchases from one path of a seller. The query makes each another order.
func times(n int, url string) (all []purchase) {
	for i := range n {
		all = append(all, purchase{url: fmt.Sprintf("%s?n=%d", url, i)})
	}
	return all
}

// answers counts the purchases that were delivered.
func answers(results []result) (n int) {
	for _, r := range results {
		if r.Status == http.StatusOK {
			n++
		}
	}
	return n
}

// account is a wallet of an official client.
type account struct {
	*x402.Key
	onTempo bool
}

func newAccount(t testing.TB, onTempo bool) account {
	t.Helper()
	key, err := x402.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	env.fund(t, key.Address(), onTempo)
	return account{key, onTempo}
}

// official has an official client make purchases. It knows Tempo if its account has money there.
func (c client) official(t testing.TB, a account, purchases []purchase) []result {
	t.Helper()
	settings := []string{"OFFICIAL=1", "KEY=0x" + hex.EncodeToString(a.Bytes()), inEnvironment(t, purchases)}
	if a.onTempo {
		settings = append(settings, "TEMPO_RPC_URL="+env.tempoChain(t).URL)
	}
	cmd := exec.Command(programFor(t, c.script), here("clients", c.script))
	cmd.Env = process.Environment(settings...)
	return finish(t, cmd, len(purchases))
}

func inEnvironment(t testing.TB, purchases []purchase) string {
	t.Helper()
	text, err := json.Marshal(purchases)
	if err != nil {
		t.Fatal(err)
	}
	return "PURCHASES=" + string(text)
}

// finish runs a client's command to its end, with few others beside it.
func finish(t testing.TB, cmd *exec.Cmd, purchases int) []result {
	t.Helper()
	return official.Results[result](t, env.Town, cmd, patience, purchases)
}
