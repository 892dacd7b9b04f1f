"""Whether a deployment takes a webhook's URL. Pure."""

from dataclasses import dataclass

from inferq.settings import Settings
from inferq.webhooks.guard import Hosts, parse_hosts
from inferq.webhooks.url import check


@dataclass(frozen=True, kw_only=True, slots=True)
class Policy:
    """Which webhooks are taken: none where there is no secret to sign them with, else what `check` lets through."""

    hosts: Hosts
    secret: bool

    @classmethod
    def of(cls, settings: Settings) -> "Policy":
        """Return what settings say."""
        return cls(hosts=parse_hosts(settings.webhook_hosts), secret=bool(settings.webhook_secret))

    def check(self, url: str) -> None:
        """Let a URL through; raises ValueError with what is wrong with it, as it follows the name of the field."""
        if not self.secret:
            raise ValueError(
                "is not taken here: there are no webhooks until the operator sets INFERQ_WEBHOOK_SECRET"
            )
        check(url, self.hosts)
