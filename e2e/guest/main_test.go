package guest

import (
	"os"
	"testing"

	"github.com/purserpay/purser/e2e/internal/process"
)

func TestMain(m *testing.M) { os.Exit(process.Main(m, 2)) }
