package cli_test

import (
	"strings"
	"testing"

	"github.com/purserpay/purser/internal/cli/clitest"
)

func TestCompletion(t *testing.T) {
	t.Parallel()
	for asked, want := range map[string]string{
		"keys ": "create\t", "wallets create --k": "--key\t", "spend --cs": "--csv\t", "in": "init\t", "organizations ": "plan\t", "payments ": "resolve\t",
		"keys create --door ": "proxy\n", "limits --door ": "transport\n",
		"payments --state ": "unresolved\n", "payments resolve x --as ": "settled\nvoid\n", "organizations plan x ": "agency\n", "env --shell ": "fish\n",
		"wallets create --network ": "base\n", "archive --format ": "jsonl\n", "archive --ol": "--older\t", "ar": "archive\t",
	} {
		fields := strings.Fields(asked)
		if strings.HasSuffix(asked, " ") {
			fields = append(fields, "")
		}
		if o := clitest.Run(t, nil, append([]string{"__complete"}, fields...)...); !strings.Contains(o.Stdout, want) {
			t.Errorf("%q: %q", asked, o.Stdout)
		}
	}
}
