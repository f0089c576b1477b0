"""Tables: how sizes are found in a configuration, and which argument of `forward` gets which tensor.

`FACTS` and `PRODUCTS` name sizes, `RULES` say what an argument gets, `MEDIA` which arguments a model that also reads
text can do without. A reader extends the tables; `extract.inputs` follows them. Reads and writes nothing; needs no
torch.
"""

from dataclasses import dataclass
from fnmatch import fnmatchcase

from schemas.rows import ModelConfig

TEXT, DECODER, SCAN = 128, 16, 4
"""Canonical lengths in tokens: of a text, of a decoder's prefix, and of a text that a sequential scan unrolls."""
INNER = (
    "text_config", "thinker_config", "encoder", "decoder", "vision_config", "audio_config", "backbone_config",
    "vit_config", "qformer_config",
)  # fmt: skip
"""Nested configurations searched for a fact, in this order, after the outer one; then all others, by name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Fact:
    """One size: the first of `keys` that a configuration has, times `scale`; else `default`; at most `limit`.

    A list gives its `entry`-th number. `families` restricts the fact; a later fact of the same name then holds for the
    other families.
    """

    name: str
    keys: tuple[str, ...] = ()
    default: int = 1
    scale: int = 1
    limit: int | None = None
    entry: int = 0
    families: tuple[str, ...] = ("*",)


FACTS = (
    Fact(name="batch"),
    Fact(name="decoder", default=DECODER),
    Fact(name="scan", default=SCAN),
    # whole frames
    Fact(name="samples", default=19_200, families=("muse_spark_audio",)),
    Fact(name="samples", default=16_000),
    Fact(name="eos", keys=("eos_token_id",), default=2),
    Fact(name="vocab", keys=("vocab_size",), default=1000),
    Fact(name="text", keys=("max_position_embeddings", "n_positions"), default=TEXT, limit=TEXT),
    Fact(name="channels", keys=("num_channels", "in_channels", "in_chans"), default=3),
    # depth_pro takes four patches a side at its largest scale
    Fact(name="image", default=1536, families=("depth_pro",)),
    Fact(name="image", default=712, families=("uvdoc*",)),
    Fact(name="image", default=336, families=("pe_*",)),
    # seggpt puts a picture and its prompt one above the other
    Fact(name="image", default=448, families=("tvp", "seggpt")),
    # windows of patches: a multiple of four patches of 14
    Fact(name="image", default=560, families=("rf_detr*",)),
    Fact(name="detection_image", default=560, families=("rf_detr*",)),
    Fact(name="image", default=640, families=("lw_detr*", "pp_ocr*_det", "deimv2*", "d_fine*", "rt_detr*")),
    Fact(name="image", keys=("image_size", "img_size"), default=224),
    Fact(name="detection_image", default=640,
         families=("lw_detr*", "pp_ocr*_det", "deimv2*", "d_fine*", "rt_detr*", "pp_doclayout*", "omdet*")),
    Fact(name="detection_image", keys=("image_size",), default=512),
    Fact(name="video", keys=("num_frames", "frames_per_clip"), default=8),
    Fact(name="tubelet", keys=("tubelet_size",), default=2),
    # seven frames of 80 side by side, or four
    Fact(name="mel", default=128, families=("gemma4_audio",)),
    Fact(name="mel", default=560, families=("fun_asr_nano*",)),
    Fact(name="mel", default=320, families=("granite_speech5*",)),
    # a chroma, not a spectrogram
    Fact(name="mel", default=12, families=("musicgen_melody",)),
    Fact(name="mel", default=80,
         keys=("feature_projection_input_dim", "input_dim", "num_mel_bins", "feature_size", "input_feat_per_channel",
               "n_mels", "mel_bins")),
    Fact(name="audio_mel", keys=("input_feat_size", "num_mel_bins"), default=128),
    Fact(name="mel_frames", keys=("max_source_positions",), default=1500, scale=2),
    Fact(name="patch_frames", keys=("max_length",), default=1024),
    Fact(name="types", keys=("type_vocab_size",), default=2),
    Fact(name="hidden", keys=("hidden_size", "d_model", "d_latents"), default=768),
    # hidden states of five layers of the model it assists
    Fact(name="context", keys=("hidden_size",), default=768, scale=5, families=("muse_glimmer_assistant",)),
    Fact(name="context", keys=("hidden_size",), default=768),
    # its own state of a token and the embedding of the next one
    Fact(name="assisted", keys=("backbone_hidden_size",), default=1536, scale=2),
    Fact(name="kv_heads", keys=("num_key_value_heads",), default=4),
    Fact(name="head", keys=("head_dim",), default=256),
    Fact(name="full_head", keys=("global_head_dim",), default=512),
    # packed images: one image of grid x grid patches
    # gemma4 pools three by three
    Fact(name="grid", default=24, families=("gemma4*", "embedding_gemma2*")),
    # each of its patches has a place in the text
    Fact(name="grid", default=8, families=("glm_image",)),
    Fact(name="grid", default=16),
    Fact(name="patch", keys=("patch_size",), default=14),
    Fact(name="merged_side", keys=("patch_size",), default=14, scale=2),
    Fact(name="merge", keys=("spatial_merge_size", "merge_size"), default=2),
    # eight lines of eight, each with its end, between a begin and an end
    Fact(name="framed_places", default=74),
    Fact(name="picture_id", keys=("image_token_id", "image_token_index"), default=3),
    Fact(name="encoder_hidden", keys=("encoder_hidden_size",), default=1408),
    Fact(name="state", keys=("state_dim",), default=17),
    Fact(name="action", keys=("act_dim",), default=4),
    Fact(name="temporal", default=1, families=("glm_image*", "hunyuan_vl*", "paddleocr_vl*", "video_llama_3*",
                                               "kimi*")),
    Fact(name="temporal", keys=("temporal_patch_size", "patch_temporal"), default=1),
    Fact(name="past", keys=("context_length",), default=32),
    Fact(name="history", default=31),
    Fact(name="horizon", keys=("prediction_length",), default=24),
    Fact(name="series", keys=("num_input_channels", "input_size"), default=1),
    Fact(name="feature_channels", keys=("visual_feat_dim", "visual_embedding_dim"), default=2048),
    Fact(name="box", keys=("visual_pos_dim",), default=4),
    Fact(name="queries", keys=("num_query_tokens",), default=32),
    Fact(name="picture_tokens", keys=("latent_query_num",), default=64),
    Fact(name="tiles", keys=("max_num_tiles",), default=4),
    Fact(name="tasks", keys=("task_seq_len",), default=77),
    Fact(name="latent", keys=("hidden_size", "codebook_dim", "latent_dim"), default=512),
    Fact(name="latent_channels", keys=("latent_channels",), default=4),
    Fact(name="codebooks", keys=("num_codebooks",), default=4, families=("musicgen*",)),
    Fact(name="codebooks", keys=("num_codebooks", "num_quantizers"), default=8),
)  # fmt: skip
"""Sizes by name; "image" and "detection_image" are spread into "..._height" and "..._width"."""
PRODUCTS: tuple[tuple[str, tuple[str, ...], tuple[str, ...]], ...] = (
    ("patches", ("grid", "grid"), ()),
    ("patch_values", ("channels", "temporal", "patch", "patch"), ()),
    ("places", ("grid", "grid"), ("merge", "merge")),
    ("plain_patch_values", ("channels", "patch", "patch"), ()),
    ("strip", ("grid", "grid", "patch"), ()),
    ("film_patches", ("video", "image_height", "image_width"), ("tubelet", "patch", "patch")),
)
"""(name, facts whose product it is, facts it is divided by)."""

NORMAL = '{"kind":"normal","mean":0.0,"std":1.0}'
UNIT = '{"kind":"uniform","low":0.0,"high":1.0}'
ONES = '{"kind":"ones"}'
ZEROS = '{"kind":"zeros"}'
IDS = '{"kind":"integers","low":0,"high":"vocab"}'
PLACED = '{"kind":"placed","length":"text","count":"places","token":"picture_id"}'
GRID = '{"kind":"literal","data":[1,"grid","grid"]}'


@dataclass(frozen=True, slots=True, kw_only=True)
class InputRule:
    """One argument of `forward`: its shape in facts or numbers, its dtype, its initialiser with facts as strings.

    An empty `init` leaves the argument out. `given`: globs on other arguments, of which `forward` must have one for
    each.
    """

    name: str
    shape: tuple[str | int, ...] = ()
    init: str = NORMAL
    dtype: str = "float32"
    families: tuple[str, ...] = ("*",)
    modalities: tuple[str, ...] = ("*",)
    classes: tuple[str, ...] = ("*",)
    given: tuple[str, ...] = ()
    needed: bool = False
    """Whether only an argument without a default gets it."""
    passed_on: bool = False
    """Whether it is given too where `forward` does not name it, but passes further keywords on to a part that does."""

    def holds(self, row: ModelConfig, names: tuple[str, ...], needed: bool) -> bool:
        """Whether the rule is about this architecture, whose `forward` takes `names` and demands this one or not."""
        if self.needed and not needed:
            return False
        about = ((row.family, self.families), (row.modality, self.modalities), (row.class_name, self.classes))
        fits = all(any(fnmatchcase(text, glob) for glob in globs) for text, globs in about)
        return fits and all(any(fnmatchcase(name, glob) for name in names) for glob in self.given)


_VIDEO = (
    "timesformer",
    "vivit",
    "videomae",
    "vjepa2",
    "tvlt",
    "videoprism*",
    "pe_video*",
    "pe_audio_video*",
    "videomt",
    "tvp",
    "instructblipvideo",
    "xclip",
)
_SCANS = ("mamba", "falcon_mamba", "rwkv", "recurrent_gemma", "jamba", "xlstm", "zamba")
_PATCHED = ("siglip2*", "lfm2_vl*")
_IMAGE = ("batch", "channels", "image_height", "image_width")
_FILM = ("batch", "video", "channels", "image_height", "image_width")
_LINE = ("batch", "text")
_LATTICE = ("patches", "patch_values")
_AUDIO_LM = ("batch", "mel", "mel_frames")

_TEXT = (
    # the last token is the end of the text, where a head looks for it; every choice is a text of its own
    InputRule(name="input_ids", shape=_LINE, dtype="int64", init='{"kind":"sentence","length":"text","last":"eos"}',
              classes=("*ForSequenceClassification",), modalities=("seq2seq",)),
    InputRule(name="input_ids", shape=("batch", 2, "text"), dtype="int64", init=IDS, classes=("*ForMultipleChoice",)),
    InputRule(name="attention_mask", shape=("batch", 2, "text"), dtype="int64", init=ONES,
              classes=("*ForMultipleChoice",)),
    # tokens of several streams at a time
    InputRule(name="input_ids", shape=("batch", "text", 33), dtype="int64", init=IDS,
              families=("kyutai_speech_to_text",)),
    InputRule(name="input_ids", shape=("codebooks", "text"), dtype="int64", init=IDS,
              classes=("Musicgen*ForCausalLM", "MusicgenModel", "MusicgenMelodyModel")),
    InputRule(name="attention_mask", init="", classes=("Musicgen*ForCausalLM", "MusicgenModel", "MusicgenMelodyModel")),
    InputRule(name="decoder_input_ids", shape=("codebooks", "decoder"), dtype="int64", init=IDS,
              families=("musicgen*",)),
    InputRule(name="decoder_input_ids", shape=("batch", "decoder", 9), dtype="int64", init=IDS, families=("dia",)),
    InputRule(name="input_ids", shape=("batch", "scan"), dtype="int64", init=IDS, families=_SCANS),
    InputRule(name="attention_mask", shape=("batch", "scan"), dtype="int64", init=ONES, families=("jamba", "zamba")),
    # places for a picture's features, then text; which is where is looked up in the two others
    InputRule(name="input_ids", shape=_LINE, dtype="int64", families=("hunyuan_vl",), given=("image_grid_thw",),
              init='{"kind":"placed","length":"text","count":"framed_places","token":"picture_id"}'),
    InputRule(name="position_ids", shape=(3, "batch", "text"), dtype="int64", families=("glm_image",),
              given=("image_grid_thw",), init='{"kind":"arange","start":0,"step":1}'),
    InputRule(name="position_ids", shape=(4, "batch", "text"), dtype="int64", families=("hunyuan_vl",),
              given=("image_grid_thw",), init='{"kind":"arange","start":0,"step":1}'),
    InputRule(name="input_ids", shape=_LINE, dtype="int64", init=PLACED, given=("image_grid_thw", "mm_token_type_ids")),
    InputRule(name="input_ids", shape=_LINE, dtype="int64", init=PLACED, given=("image_grid_thw",),
              families=("qwen3_omni_moe*", "glm_image")),
    InputRule(name="mm_token_type_ids", shape=_LINE, dtype="int64", given=("image_grid_thw",),
              init='{"kind":"first","length":"text","count":"places"}'),
    InputRule(name="position_ids", shape=(3, "batch", "text"), dtype="int64",
              given=("image_grid_thw", "mm_token_type_ids"), init='{"kind":"arange","start":0,"step":1}'),
    InputRule(name="input_ids", shape=("batch", "text", 9), dtype="int64", init=IDS, families=("higgs_audio_v3*",)),
    InputRule(name="input_ids", shape=_LINE, dtype="int64", init=IDS),
    InputRule(name="attention_mask", init="", modalities=("state-space",)),
    InputRule(name="attention_mask", shape=_LINE, dtype="int64", init=ONES, given=("input_ids",),
              modalities=("text-*", "seq2seq", "moe", "multimodal")),
    InputRule(name="attention_mask", shape=_LINE, dtype="int64", init=ONES, given=("input_ids",), needed=True),
    InputRule(name="decoder_input_ids", shape=("batch", "decoder"), dtype="int64", init=IDS),
    InputRule(name="bbox", shape=("batch", "text", 4), init=UNIT, families=("udop",)),
    InputRule(name="bbox", shape=("batch", "text", 4), dtype="int64", init='{"kind":"integers","low":0,"high":2}'),
    InputRule(name="qformer_input_ids", shape=("batch", 32), dtype="int64",
              init='{"kind":"integers","low":0,"high":1000}'),
    InputRule(name="qformer_attention_mask", shape=("batch", 32), dtype="int64", init=ONES),
    InputRule(name="task_inputs", shape=("batch", "tasks"), dtype="int64", init=IDS),
    InputRule(name="inputs", init="", given=("input_ids",)),
    InputRule(name="inputs", init="", given=("pixel_values",)),
    InputRule(name="inputs", shape=("batch", "text", "hidden"), families=("perceiver",)),
    InputRule(name="inputs_embeds", shape=("batch", "text", "hidden"), needed=True),
    InputRule(name="noise_embeds", shape=("batch", "decoder", "hidden"), needed=True),
    InputRule(name="context_hidden_states", shape=("batch", "text", "context"), needed=True),
    InputRule(name="encoder_hidden_states", shape=("batch", "text", "encoder_hidden"), families=("*qformer",)),
    InputRule(name="query_embeds", shape=("batch", "queries", "hidden"), needed=True),
    InputRule(name="assisted_embeds", shape=("batch", 1, "assisted")),
    *(InputRule(name=f"{kind}_{of}", shape=("batch", "kv_heads", "text", head))
      for kind, head in (("full", "full_head"), ("window", "head")) for of in ("keys", "values")),
    # where they are not given, their number depends on the weights of a model of its own
    InputRule(name="patch_lengths", shape=("batch", 32), dtype="int64", init='{"kind":"constant","value":4}',
              families=("blt",), passed_on=True),
    InputRule(name="global_attention_mask", shape=_LINE, dtype="int64", classes=("LongformerForQuestionAnswering",),
              init='{"kind":"first","length":"text","count":"scan"}'),
    InputRule(name="global_attention_mask", shape=("batch", 2, "text"), dtype="int64", init=ZEROS,
              classes=("LongformerForMultipleChoice",)),
    InputRule(name="marks", shape=("batch", 4), dtype="int64", init='{"kind":"literal","data":[32,64,96,128]}'),
    InputRule(name="num_options", shape=("batch", 4), dtype="int64", init='{"kind":"literal","data":[2,2,2,2]}'),
    InputRule(name="question_positions", shape=("batch", 4), dtype="int64", classes=("SplinterForPreTraining",),
              init='{"kind":"literal","data":[32,64,96,112]}'),
    InputRule(name="question_type_ids", shape=("batch", 4), dtype="int64", init=ZEROS),
)  # fmt: skip
_PACKED = (
    InputRule(name="pixel_values", shape=("patches", "channels", "patch", "patch"), families=("kimi*",),
              given=("*grid_thw",)),
    InputRule(name="pixel_values", shape=("patches", "merged_side", "merged_side", "channels"),
              families=("inkling2", "inkling2_loop", "inkling2_vision")),
    InputRule(name="pixel_values", shape=("batch", "channels", "patch", "strip"), given=("target_sizes",)),
    InputRule(name="target_sizes", shape=("batch", 2), dtype="int32",
              init='{"kind":"literal","data":["grid","grid"]}'),
    InputRule(name="pixel_values", shape=("patches", "channels", "patch", "patch"), families=("paddleocr_vl*",),
              given=("*grid_thw",)),
    InputRule(name="pixel_values", shape=_LATTICE, given=("*grid_thw",)),
    InputRule(name="hidden_states", shape=_LATTICE, given=("*grid_thw",)),
    InputRule(name="pixel_values", shape=("patches", "plain_patch_values"), given=("image_grid_hw",)),
    InputRule(name="image_grid_hw", shape=(1, 2), dtype="int64", init='{"kind":"literal","data":["grid","grid"]}'),
    InputRule(name="pixel_values_videos", init="", given=("video_grid_thw",)),
    InputRule(name="grid_thw", shape=(1, 3), dtype="int64", init=GRID),
    # of the picture that is read, and of the one that is to be made
    InputRule(name="image_grid_thw", shape=(2, 3), dtype="int64", families=("glm_image",),
              init='{"kind":"literal","data":[1,"grid","grid",1,"grid","grid"]}'),
    InputRule(name="image_grid_thw", shape=(1, 3), dtype="int64", init=GRID),
    InputRule(name="image_merge_sizes", shape=(1,), dtype="int64", init='{"kind":"literal","data":[1]}'),
    InputRule(name="merge_sizes", shape=(1,), dtype="int64", init='{"kind":"literal","data":[1]}'),
    InputRule(name="mm_token_type_ids", shape=_LINE, dtype="int64", init=ZEROS),
    InputRule(name="pixel_values", shape=("batch", "patches", "plain_patch_values"), families=_PATCHED),
    InputRule(name="pixel_attention_mask", shape=("batch", "patches"), dtype="int64", init=ONES, families=_PATCHED),
    InputRule(name="spatial_shapes", shape=("batch", 2), dtype="int64",
              init='{"kind":"literal","data":["grid","grid"]}'),
    InputRule(name="pixel_values", shape=("batch", "patches", "plain_patch_values"), given=("pixel_position_ids",)),
    InputRule(name="pixel_values", shape=("batch", "patches", "plain_patch_values"), given=("image_position_ids",)),
    InputRule(name="pixel_position_ids", shape=("batch", "patches", 2), dtype="int64",
              init='{"kind":"lattice","side":"grid"}'),
    InputRule(name="image_position_ids", shape=("batch", "patches", 2), dtype="int64",
              init='{"kind":"lattice","side":"grid"}'),
)  # fmt: skip
_PICTURES = (
    InputRule(name="pixel_values", shape=_FILM, init=NORMAL, families=_VIDEO),
    InputRule(name="pixel_values_videos", shape=_FILM, families=_VIDEO),
    InputRule(name="pixel_values_videos", shape=_FILM, needed=True),
    InputRule(name="pixel_values_videos", init="", given=("pixel_values",)),
    # a line of a text, as high as gives features of height one
    InputRule(name="pixel_values", shape=("batch", "channels", 48, 320),
              classes=("PPOCRV5ServerRecFor*", "PPOCRV6*RecFor*")),
    InputRule(name="pixel_values", shape=("batch", "channels", 96, 320), classes=("PPOCRV5MobileRecFor*",)),
    InputRule(name="pixel_values", shape=("batch", "channels", "detection_image_height", "detection_image_width"),
              modalities=("detection",)),
    InputRule(name="pixel_values", shape=("batch", 2, "channels", "image_height", "image_width"),
              families=("efficientloftr", "superglue", "lightglue")),
    InputRule(name="pixel_values", shape=("batch", 1, "tiles", "channels", "image_height", "image_width"),
              families=("mllama*",)),
    InputRule(name="pixel_values", shape=("batch", 3, "channels", "image_height", "image_width"),
              families=("llava_next*", "llava_onevision*")),
    InputRule(name="pixel_values", shape=_IMAGE, families=("idefics*_vision", "smolvlm_vision")),
    InputRule(name="pixel_values", shape=("batch", "patches", "plain_patch_values"), families=("fuyu",)),
    # one picture a camera
    InputRule(name="pixel_values", shape=("batch", 2, "channels", "image_height", "image_width"), families=("pi0",)),
    InputRule(name="pixel_attention_mask", shape=("batch", 2), dtype="bool", init=ONES, families=("pi0",)),
    InputRule(name="pixel_attention_mask", shape=("batch", 1), dtype="bool", init=ONES, families=("granite_docling",)),
    InputRule(name="pixel_values", shape=("batch", 1, "channels", "image_height", "image_width"),
              families=("idefics*", "smolvlm", "modernvbert", "ultravbert", "granite_docling")),
    InputRule(name="image_attention_mask", shape=("batch", "text", 1), dtype="int64", init=ONES, families=("idefics",)),
    InputRule(name="image_embeds_position_mask", shape=_LINE, dtype="int64", families=("kosmos-2",),
              init='{"kind":"first","length":"text","count":"picture_tokens"}'),
    InputRule(name="aspect_ratio_ids", shape=("batch", 1), dtype="int64", init=ONES),
    InputRule(name="aspect_ratio_mask", shape=("batch", 1, "tiles"), dtype="int64", init=ONES),
    InputRule(name="pixel_values", shape=_IMAGE, init=NORMAL),
    InputRule(name="image_sizes", shape=("batch", 2), dtype="int64",
              init='{"kind":"literal","data":["image_height","image_width"]}', given=("pixel_values",),
              families=("llava_next*", "llava_onevision*", "lighton_ocr", "mistral*", "pixtral*", "granite4_vision",
                        "emu3", "apertus1p5")),
    InputRule(name="high_res_pixel_values", shape=("batch", "channels", 1024, 1024)),
    InputRule(name="prompt_pixel_values", shape=_IMAGE),
    InputRule(name="prompt_masks", shape=_IMAGE),
    InputRule(name="bool_masked_pos", shape=("batch", "film_patches"), dtype="bool", init='{"kind":"bool","p":0.5}',
              needed=True),
    InputRule(name="flattened_patches", shape=("batch", 256, 770)),
    InputRule(name="visual_feats", shape=("batch", 36, "feature_channels")),
    InputRule(name="visual_embeds", shape=("batch", 36, "feature_channels"), families=("visual_bert",)),
    InputRule(name="visual_pos", shape=("batch", 36, "box"), init=UNIT),
    InputRule(name="classes_input_ids", shape=(3, 77), dtype="int64", init=IDS),
    InputRule(name="classes_attention_mask", shape=(3, 77), dtype="int64", init=ONES),
    InputRule(name="tasks_input_ids", shape=(1, 77), dtype="int64", init=IDS),
    InputRule(name="tasks_attention_mask", shape=(1, 77), dtype="int64", init=ONES),
    InputRule(name="classes_structure", shape=(1,), dtype="int64", init='{"kind":"literal","data":[3]}'),
    InputRule(name="x", shape=_IMAGE, init=NORMAL, modalities=("vision-*",)),
    InputRule(name="frame", shape=_IMAGE),
    InputRule(name="point_coords", shape=("batch", 1, 1, 2), init=UNIT),
    InputRule(name="point_kinds", shape=("batch", 1, 1), dtype="int32", init=ONES),
    InputRule(name="hidden_states", shape=("batch", "latent_channels", "grid", "grid"), classes=("GlmImageVQVAE",)),
)  # fmt: skip
_SOUNDS = (
    InputRule(name="input_values", shape=("batch", "patch_frames", "mel"), families=("audio-spectrogram-transformer",)),
    InputRule(name="input_values", shape=("batch", 1, "samples"),
              families=("encodec", "dac", "mimi*", "xcodec*", "pocket_tts*", "vibevoice*", "neucodec*", "omniasr*",
                        "wavtokenizer*", "pe_audio*")),
    # the model without a head takes what a head's own prenet would make
    InputRule(name="input_values", shape=("batch", "text", "hidden"), classes=("SpeechT5Model",)),
    InputRule(name="decoder_input_values", shape=("batch", "decoder", "hidden"), classes=("SpeechT5Model",)),
    InputRule(name="decoder_input_values", shape=("batch", "decoder", "mel")),
    InputRule(name="input_values", shape=("batch", "samples")),
    InputRule(name="input_features", init="", given=("input_values",), families=("speech-encoder-decoder",)),
    InputRule(name="input_features", shape=("batch", 50, "mel"), families=("xcodec2",)),
    InputRule(name="input_features", shape=("batch", 1, 1001, 64), families=("clap*",)),
    # eight frames a token of the text
    InputRule(name="input_features", shape=("batch", "mel", 1024), families=("voxtral_realtime",)),
    InputRule(name="input_features", shape=_AUDIO_LM,
              families=("whisper*", "voxtral*", "qwen2_audio*", "glmasr*", "audioflamingo3*", "musicflamingo*",
                        "qwen2_5_omni*", "qwen3_omni*", "moss_transcribe*", "clvp*")),
    InputRule(name="input_features", shape=("batch", "mel", 1000), families=("qwen3_asr*",)),
    InputRule(name="input_features", shape=("batch", 1024, "mel")),
    InputRule(name="input_features_mask", shape=("batch", 1000), dtype="int64", init=ONES, families=("qwen3_asr*",)),
    InputRule(name="input_features_mask", shape=("batch", "mel_frames"), dtype="int64", init=ONES,
              families=("glmasr*", "audioflamingo3*", "musicflamingo*", "voxtral*")),
    InputRule(name="input_features_mask", shape=("batch", "mel_frames"), dtype="int64", init=ONES,
              families=("moss_transcribe*",)),
    InputRule(name="input_features_mask", shape=("batch", 1024), dtype="int64", init=ONES,
              families=("fun_asr_nano*", "nemo_speechlm")),
    InputRule(name="input_features_mask", shape=("batch", 1024), dtype="bool", init=ONES, needed=True),
    InputRule(name="feature_attention_mask", shape=("batch", "mel_frames"), dtype="int64", init=ONES),
    InputRule(name="audio_mel", shape=("batch", 1024, "audio_mel")),
    InputRule(name="audio_mel_mask", shape=("batch", 1024), dtype="bool", init=ZEROS),
    InputRule(name="latents", shape=("batch", "latent", 32), needed=True),
    InputRule(name="hidden_states", shape=("batch", 1, "samples"), families=("vibevoice_acoustic_tokenizer_encoder",)),
    InputRule(name="hidden_states", shape=("batch", "latent", 32), families=("vibevoice_acoustic_tokenizer_decoder",)),
)  # fmt: skip
_LAGGED = ("autoformer", "informer", "time_series_transformer")
_SERIES = (
    # the past holds the context and the seven steps that lags reach back from it
    InputRule(name="past_values", shape=("batch", "history"), families=_LAGGED),
    InputRule(name="past_observed_mask", shape=("batch", "history"), init=ONES, families=_LAGGED),
    InputRule(name="past_time_features", shape=("batch", "history", 0), families=_LAGGED),
    InputRule(name="future_values", shape=("batch", "horizon"), families=_LAGGED),
    InputRule(name="future_time_features", shape=("batch", "horizon", 0), families=_LAGGED),
    # twenty steps of a game
    InputRule(name="states", shape=("batch", 20, "state")),
    InputRule(name="actions", shape=("batch", 20, "action"), families=("decision_transformer",)),
    InputRule(name="rewards", shape=("batch", 20, 1)),
    InputRule(name="returns_to_go", shape=("batch", 20, 1)),
    InputRule(name="timesteps", shape=("batch", 20), dtype="int64", init='{"kind":"arange","start":0,"step":1}',
              families=("decision_transformer",)),
    # a state and fifty actions of a robot
    InputRule(name="action_embeds", shape=("batch", 51, "hidden"), families=("pi0",)),
    InputRule(name="state", shape=("batch", 32), families=("pi0",)),
    InputRule(name="noise", shape=("batch", 50, 32), families=("pi0",)),
    InputRule(name="timestep", shape=("batch",), init=UNIT, families=("pi0",)),
    InputRule(name="past_values", shape=("batch", 512), families=("timesfm*",)),
    InputRule(name="past_values_padding", shape=("batch", 512), dtype="int64", init=ZEROS, needed=True),
    InputRule(name="freq", shape=("batch", 1), dtype="int64", init=ZEROS, needed=True),
    InputRule(name="past_values", shape=("batch", "past", "series")),
)  # fmt: skip
RULES = (*_TEXT, *_PACKED, *_PICTURES, *_SOUNDS, *_SERIES)
"""The first rule that holds for an argument of `forward` gives its value."""
MEDIA = (
    "pixel_*", "image_*", "video_*", "high_res_*", "aspect_ratio_*", "spatial_shapes", "input_features*",
    "input_values", "feature_attention_mask", "mm_token_type_ids", "position_ids", "visual_embeds", "audio_*",
    "flattened_patches",
)  # fmt: skip
"""Arguments that a model which also takes input_ids can do without: the second call, where the first fails."""
