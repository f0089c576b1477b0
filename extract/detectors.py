"""The part of a torchvision detector that is a function of tensors alone: from an image to raw predictions.

    network = network_of(model)
    network(images=...)                         # one-stage detectors
    network(images=..., regions=..., crops=...) # two-stage detectors, on regions that were cut out of the features

Between the parts a detector chooses boxes: how many there are depends on values, so that no single graph has it. What
is left out is the resizing of images of any size, the choice of boxes and the cutting of regions. Reads and writes
nothing.
"""

from typing import Any

import torch


class OneStage(torch.nn.Module):
    """Backbone and head."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.backbone, self.head = model.backbone, model.head

    def forward(self, images: torch.Tensor) -> Any:
        """Raw predictions of the head for every anchor."""
        return self.head(list(_levels(self.backbone(images)).values()))


class TwoStage(torch.nn.Module):
    """Backbone and proposal head on an image; box head, and mask or keypoint head, on regions of the features."""

    def __init__(self, model: Any) -> None:
        super().__init__()
        self.backbone, self.proposals = model.backbone, model.rpn.head
        regions = model.roi_heads
        self.box_head, self.box_predictor = regions.box_head, regions.box_predictor
        kind = "mask" if regions.has_mask() else "keypoint"
        self.crop_head = getattr(regions, f"{kind}_head", None)
        self.crop_predictor = getattr(regions, f"{kind}_predictor", None)

    def forward(self, images: torch.Tensor, regions: torch.Tensor, crops: torch.Tensor | None = None) -> Any:
        """Objectness and box offsets of all anchors, class and box of every region, mask or keypoints of every crop."""
        proposals = self.proposals(list(_levels(self.backbone(images)).values()))
        boxes = self.box_predictor(self.box_head(regions))
        if crops is None:
            return proposals, boxes
        assert self.crop_head is not None and self.crop_predictor is not None
        return proposals, boxes, self.crop_predictor(self.crop_head(crops))


def _levels(features: Any) -> dict[str, torch.Tensor]:
    return {"0": features} if isinstance(features, torch.Tensor) else features


def network_of(model: Any) -> torch.nn.Module:
    """The network of a detector of torchvision."""
    return TwoStage(model) if hasattr(model, "roi_heads") else OneStage(model)
